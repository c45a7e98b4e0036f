/* SPDX-License-Identifier: Apache-2.0 */
/**
 * libFuzzer target: open a plan from memory, take every part, verify.
 *
 * Checksums and the file size are put right on the way in, as a fuzzer does not guess CRCs and
 * would otherwise see nothing but the first check. Seeds: tests/schemas/corpus_plan/.
 *
 *     CC=clang meson setup build-fuzz -Dfuzz=true -Dplanner=false -Dexecutor=false
 *     ninja -C build-fuzz && build-fuzz/tests/schemas/fuzz_plan NEW_CORPUS tests/schemas/corpus_plan
 */
#include <stdlib.h>
#include <string.h>

#include "plan_builder.h"
#include "shunt/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct shunt_verify_report report;
    struct image image = {malloc(size > 0 ? size : 1), size};
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    memcpy(image.bytes, data, size);
    if (size >= sizeof(struct shunt_plan_header)) {
        image_header(&image)->file_bytes = size;
        image_seal(&image);
    }
    if (shunt_plan_open_memory(image.bytes, size, &plan, &err) == SHUNT_OK) {
        for (uint32_t d = 0; d < shunt_plan_get_header(plan)->device_count; d++) {
            struct shunt_plan_part part;
            if (shunt_plan_get_part(plan, d, &part, &err) != SHUNT_OK)
                break;
        }
        shunt_plan_verify(plan, &report, &err);
    }
    shunt_plan_close(plan);
    image_finish(&image);
    return 0;
}
