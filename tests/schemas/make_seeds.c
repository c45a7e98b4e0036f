/* SPDX-License-Identifier: Apache-2.0 */
/** Write the seed plans of the fuzzer: `make_seeds DIR`. */
#include <stdio.h>

#include "plan_builder.h"

static int write_plan(const char *folder, const char *name, struct build *build)
{
    char path[4096];
    struct image image = build_encode(build);
    snprintf(path, sizeof(path), "%s/%s.plan", folder, name);
    FILE *file = fopen(path, "wb");
    bool written = file != NULL && fwrite(image.bytes, 1, image.size, file) == image.size;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        perror(path);
    image_finish(&image);
    build_destroy(build);
    return written ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds DIR\n");
        return 2;
    }
    int failed = write_plan(argv[1], "tiny", build_tiny());
    failed |= write_plan(argv[1], "casts", build_cast());
    failed |= write_plan(argv[1], "scratch", build_scratch());
    failed |= write_plan(argv[1], "one-device", build_large(1, 0, 1));
    failed |= write_plan(argv[1], "two-devices", build_large(2, 3, 2));
    failed |= write_plan(argv[1], "no-tensors", build_large(3, 0, 1));
    return failed;
}
