# SPDX-License-Identifier: Apache-2.0
"""What a prototype of the scheduler reached on cases A to P, beside which ours are printed.

Printed figures of a note on the mathematics, by its sections; a C prototype of port loads alone, without the
cost of rounds and messages, without packing, and for T at infinitely fine rounds. `direct` to `bound` and the
rounds are with each case's best placement, but for `direct_fixed`. None: not printed there.
"""

from __future__ import annotations

from dataclasses import dataclass

CAPS = ("1.02", "1.05", "1.25")
SECTIONS = {
    "moved_fixed": "3, percent of the new bytes",
    "moved_placed": "3, percent of the new bytes",
    "direct_fixed": "2.3, seconds",
    "direct": "2.5, seconds",
    "entered_once": "2.5, seconds",
    "pooled": "2.5, seconds",
    "relayed": "2.5, seconds",
    "bound": "2.5, seconds",
    "rounds": "4.5, at caps of 1.02, 1.05 and 1.25",
    "gap": "4.5, percent over direct, at the same caps",
    "seconds": "4.5, placement to rounds, at the same caps",
}


@dataclass(frozen=True)
class Figures:
    """One case."""

    moved_fixed: float | None = None
    moved_placed: float | None = None
    direct_fixed: float | None = None
    direct: float | None = None
    entered_once: float | None = None
    pooled: float | None = None
    relayed: float | None = None
    bound: float | None = None
    rounds: tuple[int, ...] = ()
    gap: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()


FIGURES = {
    "A": Figures(98.3, 74.3, None, 0.599, 0.2995, 0.2995, 0.2995, 0.2995,
                 (17, 13, 7), (0.20, 0.29, 0.00), (0.3, 0.2, 0.1)),
    "A1": Figures(None, None, None, 0.342, 0.2995, 0.2995, 0.2995, 0.2995,
                  (7, 5, 3), (0.01, 0.02, 0.00), (0.1, 0.1, 0.0)),
    "B": Figures(rounds=(5, 4, 2), gap=(0.00, 0.00, 0.00), seconds=(0.0, 0.0, 0.0)),
    "C": Figures(55.5, 22.2, rounds=(15, 10, 4), gap=(0.00, 0.00, 0.00), seconds=(0.1, 0.1, 0.0)),
    "C2": Figures(rounds=(6, 5, 2), gap=(0.01, 0.01, 0.00), seconds=(0.1, 0.0, 0.0)),
    "D": Figures(75.0, 0.0),
    "E": Figures(),
    "F": Figures(None, None, None, 1.907, 1.907, 1.907, 0.636, 0.636,
                 (158, 62, 13), (0.08, 0.01, 0.00), (1.5, 0.3, 0.1)),
    "G": Figures(97.6, 74.8, None, 0.883, 0.883, 0.746, 0.742, 0.742,
                 (6, 5, 3), (0.01, 0.00, 0.00), (0.3, 0.5, 0.2)),
    "G2": Figures(98.6, 75.0, None, 1.041, 1.041, 0.537, 0.537, 0.537,
                  (9, 7, 4), (0.05, 0.03, 0.02), (1.0, 0.8, 0.4)),
    "H": Figures(84.5, 49.9, None, 0.131, None, None, None, 0.118,
                 (9, 7, 4), (0.00, 0.00, 0.00), (0.2, 0.2, 0.1)),
    "I": Figures(None, None, 0.966, rounds=(9, 7, 3), gap=(0.02, 0.01, 0.00), seconds=(0.7, 0.6, 0.3)),
    "J": Figures(84.6, 13.2, 0.237, rounds=(21, 12, 4), gap=(0.00, 0.00, 0.00), seconds=(6.3, 1.9, 0.3)),
    "K": Figures(91.8, 61.7, 0.111, 0.0864, 0.0864, 0.0671, 0.0671, 0.0671,
                 (26, 19, 7), (0.01, 0.00, 0.00), (5.0, 4.2, 0.4)),
    "L": Figures(None, None, 0.966, rounds=(9, 7, 3), gap=(0.05, 0.04, 0.02), seconds=(1.1, 1.1, 0.6)),
    "M": Figures(89.4, 54.7, 0.028, 0.0216, 0.0216, 0.0168, 0.0168, 0.0168,
                 (25, 18, 7), (0.41, 0.12, 0.00), (3.9, 3.3, 0.7)),
    "N": Figures(75.6, 1.4, 0.134, rounds=(5, 2, 1), gap=(0.00, 0.00, 0.00), seconds=(3.2, 3.3, 3.0)),
    "O": Figures(87.5, 50.0, 0.104, 0.0578, None, None, None, 0.0520,
                 (12, 9, 4), (0.00, 0.00, 0.00), (11.2, 11.2, 9.1)),
    "P": Figures(88.0, 51.4, 0.0155, 0.0084, None, None, None, 0.0079,
                 (25, 18, 7), (0.81, 0.02, 0.00), (17.1, 12.3, 8.3)),
}
