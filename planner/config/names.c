/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stdbool.h>
#include <string.h>

#define MAX_NAME_BYTES      255
#define MAX_REFERENCE_BYTES 4095
#define MAX_PIPELINE_BYTES  65536
#define MAX_FILE_NAME_BYTES 100

/* Control characters: below 0x20, 0x7F, and the C1 set, which is 0xC2 0x80..0x9F in UTF-8. */
static bool has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i], next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next < 0xA0))
            return true;
    }
    return false;
}

static bool contains(const char *text, size_t length, const char *part)
{
    return memmem(text, length, part, strlen(part)) != NULL;
}

const char *cfg_accept_name(const char *text, size_t length)
{
    if (length == 0 || length > MAX_NAME_BYTES)
        return "a name of 1 to 255 bytes";
    if (has_control(text, length))
        return "a name without control characters";
    if (text[0] == ' ' || text[length - 1] == ' ')
        return "a name without spaces at its ends";
    return NULL;
}

const char *cfg_accept_scalar_name(const char *text, size_t length)
{
    const char *wanted = cfg_accept_name(text, length);
    if (wanted != NULL)
        return wanted;
    if (contains(text, length, "/") || contains(text, length, ".."))
        return "a name without `/` and `..`";
    return NULL;
}

const char *cfg_accept_tensor_name(const char *text, size_t length)
{
    const char *wanted = cfg_accept_scalar_name(text, length);
    if (wanted != NULL)
        return wanted;
    size_t braces = 0, marked = 0;
    for (size_t i = 0; i < length; i++)
        braces += text[i] == '{' || text[i] == '}';
    marked += contains(text, length, CFG_LAYER_MARK) ? 2 : 0;
    marked += contains(text, length, CFG_EXPERT_MARK) ? 2 : 0;
    if (braces == marked)
        return NULL;
    return "a name with at most one `{i}`, at most one `{e}` and no other brace";
}

const char *cfg_accept_pipeline(const char *text, size_t length)
{
    if (length == 0 || length > MAX_PIPELINE_BYTES || has_control(text, length))
        return "a pipeline layout of 1 to 65536 bytes, such as \"Et*3|(tt|)*29,m|L\"";
    return NULL;
}

const char *cfg_accept_reference(const char *text, size_t length)
{
    if (length == 0 || length > MAX_REFERENCE_BYTES || has_control(text, length))
        return "the name of a built-in or a path of at most 4095 bytes without control characters";
    return NULL;
}

static bool is_file_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-", c) != NULL);
}

const char *cfg_accept_file_name(const char *text, size_t length)
{
    size_t good = 0;
    while (good < length && is_file_character(text[good]))
        good++;
    if (length == 0 || length > MAX_FILE_NAME_BYTES || good < length || text[0] == '.' || text[0] == '-')
        return "1 to 100 letters, digits, `.`, `_` or `-`, the first no `.` or `-`";
    return NULL;
}

/* A file name and ".plan". */
const char *cfg_accept_plan_file(const char *text, size_t length)
{
    static const char ending[] = ".plan";
    size_t stem = length > strlen(ending) ? length - strlen(ending) : 0;
    if (stem == 0 || memcmp(text + stem, ending, strlen(ending)) != 0 || cfg_accept_file_name(text, stem) != NULL)
        return "the name of a step and `.plan`";
    return NULL;
}

const char *cfg_accept_digest(const char *text, size_t length)
{
    if (length != 64 || strspn(text, "0123456789abcdef") < length)
        return "a digest of 64 hexadecimal digits";
    return NULL;
}
