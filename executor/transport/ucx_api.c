/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ucx_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define LIBRARY_NAME "libucp.so.0" /* it brings libucs.so.0, whose functions are found through it */

struct ucx_api ucx_api;

static struct shunt_err why_not;
static enum shunt_status loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *first_missing;

/*
 * What the process has preloaded comes first, as it would if the library were linked. A function pointer out of dlsym() is
 * not ISO C; its bytes are.
 */
static void look_up(const char *name, void *function_out)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL)
        function = dlsym(ucx_api.library, name);
    if (function == NULL && first_missing == NULL)
        first_missing = name;
    memcpy(function_out, &function, sizeof(function));
}

/* UCX takes HUP for itself as it comes in (UCX_DEBUG_SIGNO): that is given up, the signal is the program's. */
static void open_library(void)
{
    struct sigaction hangup;
    bool known = sigaction(SIGHUP, NULL, &hangup) == 0;
    ucx_api.library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
    if (known)
        sigaction(SIGHUP, &hangup, NULL);
}

static void load(void)
{
    open_library();
    if (ucx_api.library == NULL) {
        loaded =
            shunt_fail(&why_not, SHUNT_ERR_IO, "no UCX library: %s cannot be loaded (%s)", LIBRARY_NAME, dlerror());
        return;
    }
#define X(name) look_up(#name, &ucx_api.name);
    UCX_FUNCTIONS(X)
#undef X
    if (first_missing != NULL)
        loaded = shunt_fail(&why_not, SHUNT_ERR_IO, "the UCX library has no %s: version %u.%u or later is needed",
                            first_missing, UCP_API_MAJOR, UCP_API_MINOR);
}

enum shunt_status ucx_api_load(struct shunt_err *err)
{
    pthread_once(&once, load);
    return loaded == SHUNT_OK ? SHUNT_OK : shunt_fail(err, loaded, "%s", why_not.text);
}
