/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The bytes of a move, packed already, through one MPI_Alltoallv. The benchmark's section `transport` compiles and runs it
 * where Open MPI is installed.
 *
 *     alltoallv MATRIX RUNS      MATRIX: a file of N rows of N numbers: bytes from each rank to each
 *
 * Rank 0 prints the seconds of the best run, on the slowest rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int *row(int size)
{
    int *numbers = calloc((size_t)size, sizeof(int));
    if (numbers == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return numbers;
}

static char *memory(const int *counts, int *places, int size)
{
    size_t total = 0;
    for (int i = 0; i < size; i++) {
        places[i] = (int)total;
        total += (size_t)counts[i];
    }
    char *at = total <= 0x7fffffff ? malloc(total + 1) : NULL;
    if (at == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    memset(at, 0x5a, total + 1);
    return at;
}

int main(int argc, char **argv)
{
    int rank, size, number;
    double best = 1e30;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (file == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int *out = row(size), *in = row(size), *out_at = row(size), *in_at = row(size);
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            if (fscanf(file, "%d", &number) != 1)
                MPI_Abort(MPI_COMM_WORLD, 2);
            if (from == rank)
                out[to] = number;
            if (to == rank)
                in[from] = number;
        }
    }
    fclose(file);
    char *source = memory(out, out_at, size), *target = memory(in, in_at, size);
    for (int run = 0; run < atoi(argv[2]) + 1; run++) { /* the first one connects */
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), mine, slowest;
        MPI_Alltoallv(source, out, out_at, MPI_BYTE, target, in, in_at, MPI_BYTE, MPI_COMM_WORLD);
        mine = MPI_Wtime() - begin;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (run > 0 && slowest < best)
            best = slowest;
    }
    if (rank == 0)
        printf("%.9f\n", best);
    MPI_Finalize();
    return 0;
}
