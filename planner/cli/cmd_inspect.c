/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt inspect`: what a plan says, for people and as JSON. */

#include <inttypes.h>

#include "cli.h"
#include "inspect.h"

struct inspect_options {
    bool json, ops, buffers, one_device;
    uint64_t device;
    const char *path;
};

static const char description[] =
    "Print what a plan moves, its predicted time and peak memory beside the bounds that no plan can beat, its "
    "schedule, which port binds it and where the time goes, which states the new side does not keep, what becomes of "
    "the state beside the tensors (copied, "
    "recomputed, reseeded or left, and why), and up to "
    "which round it can be rolled back. --json prints the same as one object.\n\n"
    "--device prints one device's buffers and a row per round. --buffers and --ops print JSON lines: one per held box "
    "of a buffer, and one per operation, in an order that can be replayed line by line; --device narrows them to one "
    "device.";

static int parse(int argc, char **argv, struct inspect_options *o)
{
    const struct cli_option options[] = {
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print one JSON object"},
        {"device", .type = CLI_UINT, .target = &o->device, .value_name = "D", .given = &o->one_device,
         .help = "only the device of this number"},
        {"ops", .type = CLI_FLAG, .target = &o->ops, .help = "print every operation as a JSON line"},
        {"buffers", .type = CLI_FLAG, .target = &o->buffers, .help = "print every held box as a JSON line"},
    };
    const struct cli_command command = {
        .name = "inspect",
        .synopsis = "PLAN [--json] [--device D] [--ops] [--buffers]",
        .summary = "print what a plan does and costs",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 1,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);

    o->path = positional[0];
    return code;
}

static enum shunt_status find_device(const struct shunt_plan *plan, uint64_t id, struct inspect_range *range,
                                     struct shunt_err *err)
{
    uint32_t count = shunt_plan_get_header(plan)->device_count;

    for (uint32_t i = 0; i < count; i++) {
        if (shunt_plan_get_device(plan, i)->id == id) {
            *range = (struct inspect_range){i, i + 1};
            return SHUNT_OK;
        }
    }
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "inspect: device %" PRIu64 " is not in this plan of %" PRIu32 " devices, %" PRIu32 " to %" PRIu32,
                      id, count, shunt_plan_get_device(plan, 0)->id, shunt_plan_get_device(plan, count - 1)->id);
}

static enum shunt_status print_lines(const struct shunt_plan *plan, const struct inspect_options *o,
                                     struct inspect_range range, struct shunt_err *err)
{
    enum shunt_status status = SHUNT_OK;

    if (o->buffers)
        status = inspect_buffers(plan, range, err);
    if (status == SHUNT_OK && o->ops)
        status = inspect_ops(plan, range, err);
    return status;
}

static enum shunt_status print(const struct shunt_plan *plan, const struct inspect_options *o, struct shunt_err *err)
{
    struct inspect_range range = {0, shunt_plan_get_header(plan)->device_count};
    enum shunt_status status = o->one_device ? find_device(plan, o->device, &range, err) : SHUNT_OK;

    if (status != SHUNT_OK)
        return status;
    if (o->ops || o->buffers)
        return print_lines(plan, o, range, err);
    if (o->one_device)
        return (o->json ? inspect_device_json : inspect_device_page)(plan, range.begin, err);
    if (o->json)
        inspect_json(plan);
    else
        inspect_page(plan, o->path);
    return SHUNT_OK;
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_options options = {0};
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    enum shunt_status status;
    int code = parse(argc, argv, &options);

    if (code >= 0)
        return code;
    status = shunt_plan_open(options.path, &plan, &err);
    if (status == SHUNT_OK)
        status = print(plan, &options, &err);
    shunt_plan_close(plan);
    return status == SHUNT_OK ? 0 : cli_fail(status, &err);
}
