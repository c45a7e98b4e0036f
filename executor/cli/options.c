/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <getopt.h>
#include <string.h>

#include "base/number.h"
#include "device/device.h"
#include "transport/transport.h"

static const char help_text[] =
    "usage: shunt-exec PLAN [PLAN2 ...] [options]\n"
    "\n"
    "Replays a plan over one process per device, or several plans as a chain: the new side\n"
    "of each is the old side of the next, and buffers stay in memory between them.\n"
    "\n"
    "who takes part:\n"
    "  --launch N           start N processes on this machine, one per device of the plan\n"
    "  (without --launch)   rank and world size from the launcher's environment: SHUNT_*,\n"
    "                       torchrun, Open MPI, PMIx, Slurm, MPICH\n"
    "  --meet DIR           without --launch: directory that all processes see [SHUNT_MEET]\n"
    "  --job NAME           without --launch: a name no other run uses there now [SHUNT_JOB]\n"
    "  --transport NAME     ucx (default), nccl (CUDA memory), loopback (all devices in\n"
    "                       this process)\n"
    "  --device NAME        where buffers are: host (default), cuda or cuda:N; with nccl\n"
    "                       cuda is the GPU of the local rank\n"
    "\n"
    "contents:\n"
    "  --load DIR           read the old side from DIR/rank-NNNNN.safetensors\n"
    "  --store DIR          write the new side to DIR/rank-NNNNN.safetensors\n"
    "  --fill SEED          fill the old side with a pattern of SEED and global coordinates\n"
    "  --check              after the move, compare every byte of the new side (needs --fill)\n"
    "  --replicas           before the move, compare all copies of the old side with each other\n"
    "  --checksum           compare a checksum of every moved piece at both ends\n"
    "\n"
    "after a failure:\n"
    "  --journal DIR        keep a journal of finished rounds in DIR/device-NNNNN.journal\n"
    "  --read-journal DIR   run nothing: print how far each device of PLAN came\n"
    "\n"
    "other:\n"
    "  --timeout SECONDS    deadline of every wait [60]\n"
    "  --dry-run            do all but move: agree, connect, take memory; needs one PLAN\n"
    "  --no-verify          do not prove the plan before running it\n"
    "  --json               print one JSON object instead of text\n"
    "  --statistics DIR     write bytes and times of every round to DIR/device-NNNNN.jsonl\n"
    "  --list               print the transports and devices of this build\n"
    "  --help, --version\n"
    "\n"
    "exit status: 0 done, 1 refused or check failed, 2 usage, 3 environment (peer lost, timeout)\n";

enum option_code {
    OPT_LAUNCH = 1,
    OPT_TRANSPORT,
    OPT_DEVICE,
    OPT_MEET,
    OPT_JOB,
    OPT_LOAD,
    OPT_STORE,
    OPT_FILL,
    OPT_CHECK,
    OPT_CHECKSUM,
    OPT_REPLICAS,
    OPT_JOURNAL,
    OPT_READ_JOURNAL,
    OPT_STATISTICS,
    OPT_TIMEOUT,
    OPT_DRY_RUN,
    OPT_NO_VERIFY,
    OPT_JSON,
    OPT_LIST,
    OPT_HELP,
    OPT_VERSION,
};

/* clang-format off */
static const struct option long_options[] = {
    {"launch", required_argument, NULL, OPT_LAUNCH},
    {"transport", required_argument, NULL, OPT_TRANSPORT},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"meet", required_argument, NULL, OPT_MEET},
    {"job", required_argument, NULL, OPT_JOB},
    {"load", required_argument, NULL, OPT_LOAD},
    {"store", required_argument, NULL, OPT_STORE},
    {"fill", required_argument, NULL, OPT_FILL},
    {"check", no_argument, NULL, OPT_CHECK},
    {"checksum", no_argument, NULL, OPT_CHECKSUM},
    {"replicas", no_argument, NULL, OPT_REPLICAS},
    {"journal", required_argument, NULL, OPT_JOURNAL},
    {"read-journal", required_argument, NULL, OPT_READ_JOURNAL},
    {"statistics", required_argument, NULL, OPT_STATISTICS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"no-verify", no_argument, NULL, OPT_NO_VERIFY},
    {"json", no_argument, NULL, OPT_JSON},
    {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};
/* clang-format on */

static enum shunt_status bad_value(const char *option, const char *expected, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_USAGE, "--%s: found \"%.80s\", expected %s", option, optarg, expected);
}

static enum shunt_status take_number(int code, struct options *o, struct shunt_err *err)
{
    uint64_t number;
    if (code == OPT_TIMEOUT)
        return number_parse_seconds(optarg, &o->timeout_seconds) && o->timeout_seconds > 0
                   ? SHUNT_OK
                   : bad_value("timeout", "seconds above 0, like 60 or 0.5", err);
    if (code == OPT_FILL) {
        o->fill = true;
        return number_parse_u64(optarg, &o->seed) ? SHUNT_OK
                                                  : bad_value("fill", "a seed from 0 to 18446744073709551615", err);
    }
    if (!number_parse_u64(optarg, &number) || number == 0 || number > SHUNT_PLAN_MAX_DEVICES)
        return bad_value("launch", "a number of processes from 1 to 1048576", err);
    o->launch = (uint32_t)number;
    return SHUNT_OK;
}

static enum shunt_status take_option(int code, struct options *o, struct shunt_err *err)
{
    switch (code) {
    case OPT_TRANSPORT:
        o->transport = optarg;
        break;
    case OPT_DEVICE:
        o->on = optarg;
        break;
    case OPT_MEET:
        o->meet = optarg;
        break;
    case OPT_JOB:
        o->job = optarg;
        break;
    case OPT_LOAD:
        o->load = optarg;
        break;
    case OPT_STORE:
        o->store = optarg;
        break;
    case OPT_CHECK:
        o->check = true;
        break;
    case OPT_JOURNAL:
        o->journal = optarg;
        break;
    case OPT_READ_JOURNAL:
        o->read_journal = optarg;
        break;
    case OPT_STATISTICS:
        o->statistics = optarg;
        break;
    case OPT_REPLICAS:
        o->replicas = true;
        break;
    case OPT_CHECKSUM:
        o->checksum = true;
        break;
    case OPT_DRY_RUN:
        o->dry_run = true;
        break;
    case OPT_NO_VERIFY:
        o->no_verify = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_LIST:
        o->list = true;
        break;
    case OPT_HELP:
        o->help = true;
        break;
    case OPT_VERSION:
        o->version = true;
        break;
    default:
        return take_number(code, o, err);
    }
    return SHUNT_OK;
}

static enum shunt_status check_combination(const struct options *o, struct shunt_err *err)
{
    if (o->help || o->version || o->list)
        return SHUNT_OK;
    if (o->plan_count == 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "no PLAN given; see --help");
    if (o->read_journal != NULL)
        return SHUNT_OK;
    if (o->check && !o->fill)
        return shunt_fail(err, SHUNT_ERR_USAGE, "--check predicts what --fill SEED has written: give --fill too");
    if (o->fill && o->load != NULL)
        return shunt_fail(err, SHUNT_ERR_USAGE, "--fill and --load both give the old side its contents: choose one");
    if (o->store != NULL && !o->fill && o->load == NULL)
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "--store would write contents that nobody gave: give --load DIR or --fill SEED too");
    if (o->replicas && !o->fill && o->load == NULL)
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "--replicas would compare contents that nobody gave: give --load DIR or --fill SEED too");
    if (o->dry_run && (o->check || o->store != NULL || o->journal != NULL || o->statistics != NULL))
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "--dry-run moves nothing: leave out --check, --store, --journal and --statistics");
    if (o->dry_run && o->plan_count != 1)
        return shunt_fail(err, SHUNT_ERR_USAGE, "--dry-run leaves no new side for a second plan: give one PLAN");
    if (o->launch != 0 && (o->meet != NULL || o->job != NULL))
        return shunt_fail(err, SHUNT_ERR_USAGE, "--meet and --job are for runs without --launch");
    return SHUNT_OK;
}

/* A word that getopt_long() knows nothing of, or too much. */
static enum shunt_status refuse_word(const char *word, struct shunt_err *err)
{
    if (optopt >= OPT_LAUNCH && optopt <= OPT_VERSION) {
        int length = (int)strcspn(word, "=");
        return shunt_fail(err, SHUNT_ERR_USAGE, "option %.*s takes no value, found \"%.80s\"; see --help", length, word,
                          word[length] == '=' ? word + length + 1 : "");
    }
    if (optopt > 0x20 && optopt < 0x7f)
        return shunt_fail(err, SHUNT_ERR_USAGE, "unknown option -%c; see --help", optopt);
    if (optopt != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "unknown option -\\x%02x; see --help", (unsigned)optopt & 0xFF);
    char names[120] = "";
    size_t used = 0, length = strcspn(word + 2, "=");
    uint32_t fit = 0;
    for (const struct option *o = long_options; o->name != NULL; o++) {
        if (strncmp(o->name, word + 2, length) != 0)
            continue;
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s--%s", fit == 0 ? "" : ", ", o->name);
        fit++;
    }
    if (fit > 1)
        return shunt_fail(err, SHUNT_ERR_USAGE, "option %.80s can mean %s; see --help", word, names);
    return shunt_fail(err, SHUNT_ERR_USAGE, "unknown option %.80s; see --help", word);
}

enum shunt_status options_parse(int argc, char **argv, struct options *options_out, struct shunt_err *err)
{
    struct options o = {.timeout_seconds = OPTIONS_DEFAULT_TIMEOUT};
    int code, index = 0;
    opterr = 0;
    optind = 1;
    while ((code = getopt_long(argc, argv, ":", long_options, &index)) != -1) {
        if (code == ':')
            return shunt_fail(err, SHUNT_ERR_USAGE, "option %s needs a value; see --help", argv[optind - 1]);
        if (code == '?')
            return refuse_word(argv[optind - 1], err);
        enum shunt_status st = take_option(code, &o, err);
        if (st != SHUNT_OK)
            return st;
    }
    o.plans = argv + optind;
    o.plan_count = (uint32_t)(argc - optind);
    enum shunt_status st = check_combination(&o, err);
    if (st == SHUNT_OK)
        *options_out = o;
    return st;
}

void options_print_help(FILE *file)
{
    fputs(help_text, file);
}

void options_print_list(FILE *file)
{
    for (const struct transport_row *row = transport_rows; row->name != NULL; row++)
        fprintf(file, "transport %-9s %s%s%s\n", row->name, row->summary, row->ops == NULL ? "; not supported: " : "",
                row->ops == NULL ? row->missing : "");
    for (const struct device_row *row = device_rows; row->name != NULL; row++)
        fprintf(file, "device    %-9s %s%s%s\n", row->name, row->summary, row->ops == NULL ? "; not supported: " : "",
                row->ops == NULL ? row->missing : "");
}
