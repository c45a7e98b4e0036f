/* SPDX-License-Identifier: Apache-2.0 */
/** Explanations: their parts add up, and they are read as they were written, or not at all. */

#include <math.h>

#include "emit/explain.h"
#include "harness.h"

struct row {
    const char *name;
    struct timing timing;
    double lower_bound;
    double routing, uneven, copies; /* wanted */
    enum port_kind first;
};

#define SUM(l, m, c, r)                                                                                                \
    {                                                                                                                  \
        .total = (l) + (m) + (c) + (r), .links = (l), .messages = (m), .copies = (c), .rounds = (r)                    \
    }

static const struct row rows[] = {
    {.name = "a link binds",
     .timing =
         {.sum = SUM(10, 1, 2, 3),
          .padding_seconds = 0.5,
          .busiest = {[PORT_NODE_IN] = {3, 4}, [PORT_NET_OUT] = {2, 8}, [PORT_NET_IN] = {1, 7}, [PORT_PACK] = {0, 9}}},
     .lower_bound = 6,
     .routing = 1.5,
     .uneven = 2,
     .copies = 2,
     .first = PORT_NET_OUT},
    {.name = "a node's network binds",
     .timing = {.sum = SUM(8, 0, 0, 0), .busiest = {[PORT_NET_OUT] = {2, 5}, [PORT_POOL_OUT] = {2, 8}}},
     .lower_bound = 8,
     .first = PORT_POOL_OUT},
    {.name = "copies are in the bound",
     .timing = {.sum = SUM(2, 0, 9, 0), .busiest = {[PORT_NODE_OUT] = {0, 2}, [PORT_UNPACK] = {0, 9}}},
     .lower_bound = 7,
     .copies = 4,
     .first = PORT_NODE_OUT},
    {.name = "local copies alone",
     .timing = {.sum = SUM(0, 0, 3, 0), .busiest = {[PORT_COPY] = {5, 3}}},
     .copies = 3,
     .first = PORT_COPY},
};

static void check_same_limit(const struct explained_limit *a, const struct explained_limit *b, const char *name)
{
    CHECK_MSG(a->seconds == b->seconds && a->reason.limit == b->reason.limit && a->reason.first == b->reason.first &&
                  a->reason.count == b->reason.count && a->reason.bytes == b->reason.bytes,
              "%s: limit", name);
}

static void check_same(const struct explanation *a, const struct explanation *b, const char *name)
{
    CHECK_MSG(a->routing == b->routing && a->padding == b->padding && a->uneven == b->uneven &&
                  a->messages == b->messages && a->rounds == b->rounds && a->copies == b->copies,
              "%s: parts", name);
    CHECK_MSG(a->holds_old == b->holds_old && a->least_rounds == b->least_rounds && a->bound == b->bound &&
                  a->port_count == b->port_count,
              "%s: rest", name);
    check_same_limit(&a->any_plan, &b->any_plan, name);
    check_same_limit(&a->direct, &b->direct, name);
    for (uint32_t p = 0; p < a->port_count; p++)
        CHECK_MSG(a->ports[p].kind == b->ports[p].kind && a->ports[p].device == b->ports[p].device &&
                      a->ports[p].seconds == b->ports[p].seconds,
                  "%s: port %u", name, p);
}

static void adds_up(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct explanation e = explain_build(&row->timing, row->lower_bound, i == 0);
        if (i > 0)
            e.any_plan = (struct explained_limit){row->lower_bound, {LIMIT_NODE_OUT, 900, 2, UINT64_C(1) << 40}};
        if (i > 1)
            e.direct = (struct explained_limit){9.25, {LIMIT_NETWORK_OUT, 5, 1, 17}};
        double total = row->lower_bound + e.routing + e.padding + e.uneven + e.messages + e.rounds + e.copies;
        CHECK_MSG(fabs(total - row->timing.sum.total) < 1e-12, "%s: %g", row->name, total);
        CHECK_MSG(e.routing == row->routing && e.uneven == row->uneven && e.copies == row->copies, "%s: %g %g %g",
                  row->name, e.routing, e.uneven, e.copies);
        CHECK_MSG(e.ports[0].kind == row->first && e.bound == port_is_link(row->first), "%s: port %d", row->name,
                  (int)e.ports[0].kind);
        char text[EXPLAIN_TEXT_BYTES];
        struct explanation back;
        explain_write(&e, text);
        CHECK_MSG(explain_read(text, 6, &back), "%s: %s", row->name, text);
        check_same(&e, &back, row->name);
    }
}

#define PARTS "explain\nrouting\t1\npadding\t0\nuneven\t0.5\nmessages\t0\nrounds\t1e-3\ncopies\t0\n"
#define WHOLE PARTS "holds\t1\nleast\t2\n"

static const char *const refused[] = {
    NULL,
    "",
    "explain",
    "explain\n",
    "pack",
    PARTS,
    PARTS "holds\t2\nleast\t2\n",
    PARTS "holds\t1\nleast\t-2\n",
    PARTS "holds\t1\nleast\t1048577\n",
    WHOLE "pack\t0\t1",
    WHOLE "any plan\tall ports in\t0\t1\t17\n",
    WHOLE "any plan\tall ports\t0\t1\t17\t1\n",
    WHOLE "direct\tnode in\t3\t1\t17\t1\n",
    WHOLE "direct\tnode in\t1\t1\t17\t1\nany plan\tcopies\t0\t1\t17\t1\n",
    WHOLE "pack\t3\t1\n",
    WHOLE "pack\t0\tnan\n",
    WHOLE "pack\t0\t-1\n",
    WHOLE "packs\t0\t1\n",
    WHOLE "pack 0 1\n",
    WHOLE "\n",
    "explain\nrouting\t0x10000000000000000\tq",
};

static void reads_whole_or_not(void)
{
    struct explanation e;
    CHECK(explain_read(WHOLE, 3, &e) && e.port_count == 0 && !e.bound && e.uneven == 0.5);
    CHECK(explain_read(WHOLE "pack\t2\t1\n", 3, &e) && e.port_count == 1 && !e.bound);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        CHECK_MSG(!explain_read(refused[i], 3, &e), "%s", refused[i]);
    char many[EXPLAIN_TEXT_BYTES] = WHOLE;
    for (int i = 0; i <= PORT_KINDS; i++)
        strcat(many, "pack\t0\t1\n");
    CHECK(!explain_read(many, 3, &e));
}

static const struct test_case cases[] = {
    {"adds_up", adds_up},
    {"reads_whole_or_not", reads_whole_or_not},
};
TEST_MAIN(cases)
