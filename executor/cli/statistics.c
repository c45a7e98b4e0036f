/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/statistics.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/jsonw.h"

enum shunt_status statistics_make(const char *dir, struct shunt_err *err)
{
    if (mkdir(dir, 0777) == 0 || errno == EEXIST)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_IO, "--statistics %s: make directory: %s", dir, strerror(errno));
}

static void print_round(FILE *file, uint32_t plan, const struct shunt_exec_round *round)
{
    struct jsonw json = {.file = file};
    jsonw_open(&json, NULL, '{');
    jsonw_u64(&json, "plan", plan);
    jsonw_u64(&json, "device", round->device);
    jsonw_u64(&json, "round", round->round);
    jsonw_bool(&json, "finished", round->finished != 0);
    jsonw_u64(&json, "moved_sent", round->sent_bytes);
    jsonw_u64(&json, "moved_received", round->received_bytes);
    jsonw_u64(&json, "wire_sent", round->wire_sent_bytes);
    jsonw_u64(&json, "wire_received", round->wire_received_bytes);
    jsonw_u64(&json, "copied", round->copied_bytes);
    jsonw_u64(&json, "filled", round->filled_bytes);
    jsonw_double(&json, "pack_seconds", round->pack_seconds);
    jsonw_double(&json, "wire_seconds", round->wire_seconds);
    jsonw_double(&json, "wait_seconds", round->wait_seconds);
    jsonw_double(&json, "unpack_seconds", round->unpack_seconds);
    jsonw_close(&json, '}');
    putc('\n', file);
}

enum shunt_status statistics_write(const char *dir, const struct shunt_exec *exec, uint32_t device, uint32_t plan,
                                   struct shunt_err *err)
{
    char path[4096];
    uint32_t count;
    const struct shunt_exec_round *rounds = shunt_exec_get_rounds(exec, &count);
    if (snprintf(path, sizeof(path), "%s/device-%05u.jsonl", dir, device) >= (int)sizeof(path))
        return shunt_fail(err, SHUNT_ERR_IO, "%s: the name of a file there is too long", dir);
    FILE *file = fopen(path, plan == 0 ? "w" : "a");
    if (file == NULL)
        return shunt_fail(err, SHUNT_ERR_IO, "write %s: %s", path, strerror(errno));
    for (uint32_t k = 0; k < count; k++)
        print_round(file, plan, &rounds[k]);
    bool bad = ferror(file) != 0;
    if (fclose(file) != 0 || bad)
        return shunt_fail(err, SHUNT_ERR_IO, "write %s: %s", path, strerror(errno));
    return SHUNT_OK;
}
