/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/board.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOARD_MAGIC UINT64_C(0x3144524f424e4853)

enum lost_state { LOST_NONE = 0, LOST_WRITING, LOST_SET };

struct board_head {
    uint64_t magic;
    uint32_t size, plan_count;
    _Atomic uint32_t lost_state; /* enum lost_state */
    struct meet_lost lost;
};

struct board_slot {
    _Atomic uint32_t bytes[MEET_KEY_COUNT]; /* 0 until the record is complete */
    unsigned char records[MEET_KEY_COUNT][MEET_MAX_BYTES];
    _Atomic int64_t alive_ns;
    _Atomic uint32_t phase, round;
    _Atomic uint32_t ended;
    uint32_t status;
    char text[1024];
};

struct board_result {
    _Atomic uint32_t ready;
    unsigned char bytes[BOARD_RESULT_BYTES];
};

struct board {
    struct board_head *head;
    struct board_slot *slots;
    struct board_result *results; /* plan-major */
    size_t map_bytes;
};

struct board_meet {
    struct meet base;
    struct board board;
};

static size_t board_bytes(uint32_t size, uint32_t plan_count)
{
    return sizeof(struct board_head) + (size_t)size * sizeof(struct board_slot) +
           (size_t)size * plan_count * sizeof(struct board_result);
}

static enum shunt_status map_board(int fd, uint32_t size, uint32_t plan_count, struct board *board,
                                   struct shunt_err *err)
{
    size_t bytes = board_bytes(size, plan_count);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return shunt_fail(err, SHUNT_ERR_IO, "map the launcher's board: %s", strerror(errno));
    board->head = base;
    board->slots = (struct board_slot *)(board->head + 1);
    board->results = (struct board_result *)(board->slots + size);
    board->map_bytes = bytes;
    return SHUNT_OK;
}

enum shunt_status board_create(uint32_t size, uint32_t plan_count, struct board **board_out, int *fd_out,
                               struct shunt_err *err)
{
    struct board *board = calloc(1, sizeof(*board));
    if (board == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    int fd = memfd_create("shunt-exec", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)board_bytes(size, plan_count)) != 0) {
        enum shunt_status st = shunt_fail(err, SHUNT_ERR_IO, "make shared memory: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        free(board);
        return st;
    }
    enum shunt_status st = map_board(fd, size, plan_count, board, err);
    if (st != SHUNT_OK) {
        close(fd);
        free(board);
        return st;
    }
    board->head->size = size;
    board->head->plan_count = plan_count;
    board->head->magic = BOARD_MAGIC;
    *board_out = board;
    *fd_out = fd;
    return SHUNT_OK;
}

void board_destroy(struct board *board)
{
    if (board == NULL)
        return;
    munmap(board->head, board->map_bytes);
    free(board);
}

void board_report_lost(struct board *board, const struct meet_lost *lost)
{
    uint32_t none = LOST_NONE;
    if (!atomic_compare_exchange_strong(&board->head->lost_state, &none, LOST_WRITING))
        return;
    board->head->lost = *lost;
    atomic_store_explicit(&board->head->lost_state, LOST_SET, memory_order_release);
}

bool board_get_lost(const struct board *board, struct meet_lost *lost_out)
{
    if (atomic_load_explicit(&board->head->lost_state, memory_order_acquire) != LOST_SET)
        return false;
    *lost_out = board->head->lost;
    lost_out->text[sizeof(lost_out->text) - 1] = '\0';
    if (lost_out->status > SHUNT_ERR_INTERNAL || lost_out->status == SHUNT_OK)
        lost_out->status = SHUNT_ERR_INTERNAL;
    return true;
}

void board_put_result(struct board *board, uint32_t plan, uint32_t rank, const void *result, size_t bytes)
{
    struct board_result *slot = &board->results[(size_t)plan * board->head->size + rank];
    assert(bytes <= sizeof(slot->bytes));
    memcpy(slot->bytes, result, bytes);
    atomic_store_explicit(&slot->ready, 1, memory_order_release);
}

bool board_get_result(const struct board *board, uint32_t plan, uint32_t rank, void *result_out, size_t bytes)
{
    const struct board_result *slot = &board->results[(size_t)plan * board->head->size + rank];
    if (atomic_load_explicit(&slot->ready, memory_order_acquire) != 1)
        return false;
    memcpy(result_out, slot->bytes, bytes);
    return true;
}

void board_put_end(struct board *board, uint32_t rank, enum shunt_status status, const char *text)
{
    struct board_slot *slot = &board->slots[rank];
    slot->status = (uint32_t)status;
    size_t bytes = strnlen(text, sizeof(slot->text) - 1);
    memcpy(slot->text, text, bytes);
    slot->text[bytes] = '\0';
    atomic_store_explicit(&slot->ended, 1, memory_order_release);
}

void board_get_child(const struct board *board, uint32_t rank, struct board_child *child_out)
{
    const struct board_slot *slot = &board->slots[rank];
    *child_out = (struct board_child){.ended = atomic_load_explicit(&slot->ended, memory_order_acquire) == 1};
    if (child_out->ended) {
        child_out->status = slot->status <= SHUNT_ERR_INTERNAL ? slot->status : SHUNT_ERR_INTERNAL;
        memcpy(child_out->text, slot->text, sizeof(child_out->text) - 1);
    }
    child_out->phase = atomic_load_explicit(&slot->phase, memory_order_relaxed);
    child_out->round = atomic_load_explicit(&slot->round, memory_order_relaxed);
}

/* ---- the meeting ---------------------------------------------------------------- */

static enum shunt_status board_put(struct meet *meet, enum meet_key key, const void *bytes, size_t size,
                                   struct shunt_err *err)
{
    struct board_slot *slot = &((struct board_meet *)meet)->board.slots[meet->rank];
    if (size == 0 || size > MEET_MAX_BYTES)
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "a meeting record of %zu bytes", size);
    memcpy(slot->records[key], bytes, size);
    atomic_store_explicit(&slot->bytes[key], (uint32_t)size, memory_order_release);
    return SHUNT_OK;
}

static enum shunt_status board_try_get(struct meet *meet, enum meet_key key, uint32_t rank, void *bytes,
                                       size_t capacity, size_t *size_out, struct shunt_err *err)
{
    const struct board_slot *slot = &((struct board_meet *)meet)->board.slots[rank];
    uint32_t size = atomic_load_explicit(&slot->bytes[key], memory_order_acquire);
    if (size > capacity || size > MEET_MAX_BYTES)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the meeting record of device %u has %u bytes", rank, size);
    memcpy(bytes, slot->records[key], size);
    *size_out = size;
    return SHUNT_OK;
}

static void meet_report_lost(struct meet *meet, const struct meet_lost *lost)
{
    board_report_lost(&((struct board_meet *)meet)->board, lost);
}

static bool meet_get_lost(struct meet *meet, struct meet_lost *lost_out)
{
    struct board *board = &((struct board_meet *)meet)->board;
    atomic_store_explicit(&board->slots[meet->rank].alive_ns, clock_now_ns(), memory_order_relaxed);
    return board_get_lost(board, lost_out);
}

static double board_silent_seconds(struct meet *meet, uint32_t rank)
{
    const struct board_slot *slot = &((struct board_meet *)meet)->board.slots[rank];
    int64_t alive = atomic_load_explicit(&slot->alive_ns, memory_order_relaxed);
    return alive == 0 ? -1.0 : (double)(clock_now_ns() - alive) / 1e9;
}

static void board_beat(struct meet *meet, enum meet_phase phase, uint32_t round)
{
    struct board_slot *slot = &((struct board_meet *)meet)->board.slots[meet->rank];
    atomic_store_explicit(&slot->phase, (uint32_t)phase, memory_order_relaxed);
    atomic_store_explicit(&slot->round, round, memory_order_relaxed);
}

static void board_close(struct meet *meet)
{
    struct board_meet *own = (struct board_meet *)meet;
    munmap(own->board.head, own->board.map_bytes);
    free(own);
}

static const struct meet_ops board_ops = {
    .name = "launcher's board",
    .put = board_put,
    .try_get = board_try_get,
    .report_lost = meet_report_lost,
    .get_lost = meet_get_lost,
    .silent_seconds = board_silent_seconds,
    .beat = board_beat,
    .close = board_close,
};

static enum shunt_status check_board(int fd, uint32_t rank, uint32_t size, uint32_t plan_count, struct shunt_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: descriptor %d: %s", BOARD_FD_VARIABLE, fd, strerror(errno));
    if (rank >= size || st.st_size != (off_t)board_bytes(size, plan_count))
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: descriptor %d is not a board of %u devices and %u plans",
                          BOARD_FD_VARIABLE, fd, size, plan_count);
    return SHUNT_OK;
}

enum shunt_status board_join(int fd, uint32_t rank, uint32_t size, uint32_t plan_count, struct meet **meet_out,
                             struct board **board_out, struct shunt_err *err)
{
    enum shunt_status st = check_board(fd, rank, size, plan_count, err);
    if (st != SHUNT_OK)
        return st;
    struct board_meet *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    own->base = (struct meet){.ops = &board_ops, .rank = rank, .size = size};
    st = map_board(fd, size, plan_count, &own->board, err);
    close(fd);
    if (st == SHUNT_OK && (own->board.head->magic != BOARD_MAGIC || own->board.head->size != size ||
                           own->board.head->plan_count != plan_count)) {
        munmap(own->board.head, own->board.map_bytes);
        st = shunt_fail(err, SHUNT_ERR_USAGE, "%s: not a board of this run", BOARD_FD_VARIABLE);
    }
    if (st != SHUNT_OK) {
        free(own);
        return st;
    }
    *meet_out = &own->base;
    *board_out = &own->board;
    return SHUNT_OK;
}
