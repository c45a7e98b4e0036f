/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"

struct totals {
    uint32_t done; /* devices that have reported */
    uint64_t moved, received, wire, copied, filled;
    uint64_t checked, wrong, never, checksummed;
    uint64_t peak, plan_peak; /* maxima over devices; plan_peak is of the device with the measured peak */
    uint32_t peak_device;
    double seconds; /* slowest device */
};

static const struct plan_result *result_of(const struct summary *summary, uint32_t plan, uint32_t device)
{
    return &summary->results[(size_t)plan * summary->chain->device_count + device];
}

static void add_result(struct totals *totals, const struct plan_result *result)
{
    totals->done++;
    totals->moved += result->stats.sent_bytes;
    totals->received += result->stats.received_bytes;
    totals->wire += result->stats.wire_sent_bytes;
    totals->copied += result->stats.copied_bytes;
    totals->filled += result->stats.filled_bytes;
    totals->checked += result->report.checked_bytes;
    totals->wrong += result->report.wrong_bytes;
    totals->never += result->report.never_bytes;
    totals->checksummed += result->stats.checksummed_bytes;
    if (result->stats.peak_bytes > totals->peak || totals->done == 1) {
        totals->peak = result->stats.peak_bytes;
        totals->plan_peak = result->stats.plan_peak_bytes;
        totals->peak_device = result->device;
    }
    if (result->stats.seconds > totals->seconds)
        totals->seconds = result->stats.seconds;
}

static struct totals plan_totals(const struct summary *summary, uint32_t plan)
{
    struct totals totals = {0};
    for (uint32_t i = 0; i < summary->chain->device_count; i++) {
        const struct plan_result *result = result_of(summary, plan, i);
        if (result->done)
            add_result(&totals, result);
    }
    return totals;
}

static struct totals chain_totals(const struct summary *summary)
{
    struct totals totals = {0};
    for (uint32_t p = 0; summary->chain != NULL && p < summary->chain->count; p++) {
        struct totals plan = plan_totals(summary, p);
        totals.moved += plan.moved;
        totals.checked += plan.checked;
        totals.wrong += plan.wrong;
        totals.never += plan.never;
        totals.seconds += plan.seconds;
    }
    return totals;
}

/* ---- text ------------------------------------------------------------------------ */

static void print_dropped(uint32_t states, FILE *file)
{
    const char *before = "  dropped, as the new layout has none: ";
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if ((states >> s & 1) == 0)
            continue;
        fprintf(file, "%s%s", before, shunt_state_name(s));
        before = ", ";
    }
    if (states != 0)
        putc('\n', file);
}

static void print_plan(const struct summary *summary, uint32_t plan, FILE *file)
{
    struct totals t = plan_totals(summary, plan);
    const struct shunt_plan_header *header = shunt_plan_get_header(summary->chain->plans[plan]);
    if (t.done == 0)
        return;
    fprintf(file, "%s: %u device%s, %u round%s over %s\n", summary->chain->paths[plan], header->device_count,
            header->device_count == 1 ? "" : "s", header->round_count, header->round_count == 1 ? "" : "s",
            summary->transport);
    fprintf(file, "  %" PRIu64 " bytes moved, %" PRIu64 " copied on the device, %" PRIu64 " filled\n", t.moved,
            t.copied, t.filled);
    fprintf(file, "  %.6f s of data movement (slowest device)", t.seconds);
    if (t.seconds > 0)
        fprintf(file, ", %.2f GB/s", (double)t.moved / t.seconds / 1e9);
    fprintf(file, "\n  peak %" PRIu64 " bytes on device %u, plan says at most %" PRIu64 "\n", t.peak, t.peak_device,
            t.plan_peak);
    print_dropped(summary->chain->proofs[plan].dropped_states, file);
    if (summary->options->checksum)
        fprintf(file, "  %" PRIu64 " bytes have the checksums they were sent with\n", t.checksummed);
    if (summary->options->check)
        fprintf(file, "  %" PRIu64 " bytes checked, %" PRIu64 " wrong, %" PRIu64 " never written\n", t.checked, t.wrong,
                t.never);
}

static void print_text(const struct summary *summary, FILE *file)
{
    for (uint32_t p = 0; summary->chain != NULL && p < summary->chain->count; p++)
        print_plan(summary, p, file);
    if (summary->status != SHUNT_OK)
        return;
    struct totals t = chain_totals(summary);
    if (summary->options->check)
        fprintf(file, "OK: %" PRIu64 " bytes moved, %" PRIu64 " bytes checked, %" PRIu64 " wrong\n", t.moved, t.checked,
                t.wrong);
    else
        fprintf(file, "OK: %" PRIu64 " bytes moved%s\n", t.moved, summary->options->dry_run ? ", as in a dry run" : "");
}

/* ---- JSON ------------------------------------------------------------------------ */

static void json_device(struct jsonw *json, const struct summary *summary, uint32_t plan, uint32_t device)
{
    const struct plan_result *result = result_of(summary, plan, device);
    const struct shunt_exec_stats *stats = &result->stats;
    jsonw_open(json, NULL, '{');
    jsonw_u64(json, "device", device);
    jsonw_u64(json, "device_id", shunt_plan_get_device(summary->chain->plans[plan], device)->id);
    jsonw_bool(json, "done", result->done);
    jsonw_u64(json, "moved_sent", stats->sent_bytes);
    jsonw_u64(json, "moved_received", stats->received_bytes);
    jsonw_u64(json, "wire_sent", stats->wire_sent_bytes);
    jsonw_u64(json, "wire_received", stats->wire_received_bytes);
    jsonw_u64(json, "copied", stats->copied_bytes);
    jsonw_u64(json, "filled", stats->filled_bytes);
    jsonw_u64(json, "peak_bytes", stats->peak_bytes);
    jsonw_u64(json, "plan_peak_bytes", shunt_plan_get_device(summary->chain->plans[plan], device)->peak_bytes);
    jsonw_u64(json, "host_peak_bytes", stats->host_peak_bytes);
    jsonw_u64(json, "table_bytes", stats->table_bytes);
    jsonw_u64(json, "device_taken_bytes", stats->device_taken_bytes);
    jsonw_double(json, "seconds", stats->seconds);
    jsonw_u64(json, "checksummed", stats->checksummed_bytes);
    jsonw_double(json, "checksum_seconds", stats->checksum_seconds);
    jsonw_u64(json, "checked", result->report.checked_bytes);
    jsonw_u64(json, "wrong", result->report.wrong_bytes);
    jsonw_u64(json, "never_written", result->report.never_bytes);
    jsonw_close(json, '}');
}

/* null if the plan has not been proved: then nobody knows. */
static void json_dropped(struct jsonw *json, const struct chain_proof *proof)
{
    if (!proof->proved) {
        jsonw_string(json, "dropped_states", NULL);
        return;
    }
    jsonw_open(json, "dropped_states", '[');
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if ((proof->dropped_states >> s & 1) != 0)
            jsonw_string(json, NULL, shunt_state_name(s));
    }
    jsonw_close(json, ']');
}

static void json_plan(struct jsonw *json, const struct summary *summary, uint32_t plan)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(summary->chain->plans[plan]);
    struct totals t = plan_totals(summary, plan);
    jsonw_open(json, NULL, '{');
    jsonw_string(json, "path", summary->chain->paths[plan]);
    jsonw_hex(json, "plan_id", header->plan_id, sizeof(header->plan_id));
    jsonw_u64(json, "devices_reported", t.done);
    jsonw_u64(json, "rounds", header->round_count);
    json_dropped(json, &summary->chain->proofs[plan]);
    jsonw_u64(json, "moved", t.moved);
    jsonw_u64(json, "wire", t.wire);
    jsonw_u64(json, "copied", t.copied);
    jsonw_u64(json, "filled", t.filled);
    jsonw_double(json, "seconds", t.seconds);
    jsonw_u64(json, "peak_bytes", t.peak);
    jsonw_u64(json, "peak_device", t.peak_device);
    jsonw_u64(json, "plan_peak_bytes", shunt_plan_get_summary(summary->chain->plans[plan])->peak);
    jsonw_u64(json, "checksummed", t.checksummed);
    jsonw_u64(json, "checked", t.checked);
    jsonw_u64(json, "wrong", t.wrong);
    jsonw_u64(json, "never_written", t.never);
    jsonw_open(json, "devices", '[');
    for (uint32_t i = 0; i < header->device_count; i++)
        json_device(json, summary, plan, i);
    jsonw_close(json, ']');
    jsonw_close(json, '}');
}

static void print_json(const struct summary *summary, FILE *file)
{
    struct jsonw json = {.file = file};
    struct totals t = chain_totals(summary);
    jsonw_open(&json, NULL, '{');
    jsonw_string(&json, "status", shunt_status_name(summary->status));
    jsonw_u64(&json, "exit_code", (uint64_t)shunt_status_exit_code(summary->status));
    jsonw_string(&json, "error", summary->status == SHUNT_OK ? NULL : summary->error);
    jsonw_string(&json, "transport", summary->transport);
    jsonw_bool(&json, "dry_run", summary->options->dry_run);
    jsonw_u64(&json, "devices", summary->chain == NULL ? 0 : summary->chain->device_count);
    jsonw_open(&json, "plans", '[');
    for (uint32_t p = 0; summary->chain != NULL && p < summary->chain->count; p++)
        json_plan(&json, summary, p);
    jsonw_close(&json, ']');
    jsonw_open(&json, "totals", '{');
    jsonw_u64(&json, "moved", t.moved);
    jsonw_double(&json, "seconds", t.seconds);
    jsonw_bool(&json, "check", summary->options->check);
    jsonw_u64(&json, "checked", t.checked);
    jsonw_u64(&json, "wrong", t.wrong);
    jsonw_u64(&json, "never_written", t.never);
    jsonw_close(&json, '}');
    jsonw_close(&json, '}');
    putc('\n', file);
}

void summary_print(const struct summary *summary, FILE *file)
{
    if (summary->options->json)
        print_json(summary, file);
    else
        print_text(summary, file);
    fflush(file);
}
