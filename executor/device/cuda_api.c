/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "device/cuda.h"

static const char *const library_names[] = {"libcudart.so.13", "libcudart.so.12"};

static struct cuda_api api;
static struct shunt_err why_not;
static enum shunt_status loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *open_library(void)
{
    for (size_t i = 0; i < sizeof(library_names) / sizeof(library_names[0]); i++) {
        void *library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library != NULL)
            return library;
    }
    return NULL;
}

static const char *first_missing;

/* A function pointer out of dlsym() is not ISO C; its bytes are. */
static void look_up(const char *name, void *function_out)
{
    void *function = dlsym(api.library, name);
    if (function == NULL && first_missing == NULL)
        first_missing = name;
    memcpy(function_out, &function, sizeof(function));
}

static void load(void)
{
    api.library = open_library();
    if (api.library == NULL) {
        loaded = shunt_fail(&why_not, SHUNT_ERR_IO, "no CUDA Runtime library: neither %s nor %s can be loaded (%s)",
                            library_names[0], library_names[1], dlerror());
        return;
    }
#define X(name) look_up(#name, &api.name);
    CUDA_FUNCTIONS(X)
#undef X
    if (first_missing != NULL)
        loaded = shunt_fail(&why_not, SHUNT_ERR_IO,
                            "the CUDA Runtime library has no %s: version 12.8 or later is needed", first_missing);
}

enum shunt_status cuda_api_get(const struct cuda_api **api_out, struct shunt_err *err)
{
    pthread_once(&once, load);
    if (loaded != SHUNT_OK)
        return shunt_fail(err, loaded, "%s", why_not.text);
    *api_out = &api;
    return SHUNT_OK;
}
