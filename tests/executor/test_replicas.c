/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the old side: equal ones pass, and any byte that differs is found before a move. */
#include "device/digest.h"
#include "io/replicas.h"
#include "rig.h"

static enum shunt_status compare(struct rig *rig)
{
    rig->err.text[0] = '\0';
    return replicas_compare(rig->world, rig->execs, rig->count, NULL, 10, &rig->err);
}

static void flip(unsigned char *byte)
{
    unsigned char value;
    rig_peek(&value, byte, 1);
    value ^= 0x01;
    rig_poke(byte, &value, 1);
}

/* norm.weight is on devices 0 and 1; nothing else is held twice. */
static void finds_any_byte(void)
{
    struct rig rig;
    if (!digest_available()) {
        test_skip("built without xxhash");
        return;
    }
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    rig_bind(&rig, 3, false);
    CHECK_MSG(compare(&rig) == SHUNT_OK, "%s", rig.err.text);
    uint32_t found = 0;
    for (uint32_t d = 0; d < rig.count; d++) {
        for (uint32_t i = 0; i < shunt_exec_buffer_count(rig.execs[d]); i++) {
            struct shunt_exec_buffer buffer;
            shunt_exec_get_buffer(rig.execs[d], i, &buffer);
            if (rig.memory[d][i] == NULL || buffer.bytes == 0)
                continue;
            flip((unsigned char *)rig.memory[d][i] + buffer.bytes - 1);
            bool twice = strcmp(buffer.name, "param/norm.weight") == 0;
            CHECK_EQ_U64(compare(&rig), twice ? SHUNT_ERR_CHECK : SHUNT_OK);
            if (twice)
                CHECK_CONTAINS(rig.err.text, "param/norm.weight [0,4) has other bytes on device 1 (old rank 1) than on "
                                             "device 0 (old rank 0); 1 boxes differ in all");
            found += twice;
            flip((unsigned char *)rig.memory[d][i] + buffer.bytes - 1);
        }
    }
    CHECK_EQ_U64(found, 2);
    CHECK_EQ_U64(compare(&rig), SHUNT_OK);
    rig_close(&rig);
}

static const struct test_case cases[] = {{"finds_any_byte", finds_any_byte}};
TEST_MAIN(cases)
