# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the commands in tools/: steps, packages, logged runs. Source it after `set -euo pipefail`.
# Every command that `logged` or `shown` starts has a process group of its own, which ends with the script.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
child=
apt_updated=

step() { printf '== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }

end_child() {
    if [ -n "$child" ]; then
        kill -- "-$child" 2>/dev/null || true
        child=
    fi
}
trap end_child EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

wait_child() {
    local code=0
    wait "$child" || code=$?
    child=
    return "$code"
}

# logged NAME COMMAND...: all output to build/NAME.log; its end is shown when the command fails.
logged() {
    local log=$root/build/$1.log code=0
    shift
    mkdir -p "$root/build"
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    child=$!
    set +m
    wait_child || code=$?
    if [ "$code" != 0 ]; then
        note "failed (exit $code): $*"
        tail -n 60 "$log" | sed 's/^/   | /'
        note "whole log: ${log#"$root"/}"
    fi
    return "$code"
}

# shown COMMAND...: output as it comes.
shown() {
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    wait_child
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo -E env DEBIAN_FRONTEND=noninteractive "$@"
    else
        echo "neither root nor sudo: cannot run $*" >&2
        return 3
    fi
}

has_header() { echo "#include <$1>" | gcc -E - >/dev/null 2>&1; }
has_sanitizers() {
    echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return b && n ? 0 : 0; }' |
        clang -fsanitize=address,undefined,fuzzer -x c - -o /dev/null 2>/dev/null
}

# is_there PACKAGE: what the package is for works on this machine, wherever it came from.
is_there() {
    case $1 in
    build-essential) has_header stdio.h ;;
    ninja-build) command -v ninja ;;
    libyaml-dev) pkg-config --exists yaml-0.1 ;;
    libssl-dev) pkg-config --exists libcrypto ;;
    libucx-dev) pkg-config --exists ucx ;;
    libglpk-dev) has_header glpk.h ;;
    libxxhash-dev) has_header xxhash.h ;;
    python3-venv) python3 -c 'import venv, ensurepip' ;;
    libclang-rt-dev) has_sanitizers ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# need PACKAGE...: install what is missing, and nothing else.
need() {
    local package missing=()
    for package in "$@"; do
        is_there "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ]; then
        note "all there: $*"
        return 0
    fi
    if ! command -v apt-get >/dev/null; then
        echo "missing, and no apt-get to install them with: ${missing[*]}" >&2
        return 3
    fi
    note "installing ${missing[*]}"
    mkdir -p "$root/build"
    if [ -z "$apt_updated" ]; then
        as_root apt-get update -q >"$root/build/apt.log" 2>&1 || note "apt-get update failed, see build/apt.log"
        apt_updated=yes
    fi
    if ! as_root apt-get install -q -y --no-install-recommends "${missing[@]}" >>"$root/build/apt.log" 2>&1; then
        tail -n 20 "$root/build/apt.log" | sed 's/^/   | /' >&2
        return 3
    fi
}

# NVIDIA's compiler and headers, to build the CUDA device; its libraries are for who has a GPU.
cuda_packages=(nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.*)
nccl_package=nvidia-nccl-cu13==2.28.* # for its header alone
toolkit= nccl=

# find_toolkit: sets `toolkit` to a folder with bin/nvcc and include/, of this machine or in .venv/.
find_toolkit() {
    local place
    for place in "${CUDA_HOME:-/usr/local/cuda}" "$root"/.venv/lib/python3*/site-packages/nvidia/cu13; do
        if [ -x "$place/bin/nvcc" ] && [ -f "$place/include/cuda_runtime_api.h" ]; then
            toolkit=$place
            return 0
        fi
    done
    return 1
}

# find_nccl: there is nccl.h, beside the toolkit, in .venv/ (then `nccl` is set) or where the compiler looks.
find_nccl() {
    local place
    for place in "$root"/.venv/lib/python3*/site-packages/nvidia/nccl/include; do
        [ ! -f "$place/nccl.h" ] || nccl=$place
    done
    [ -n "$nccl" ] || [ -f "$toolkit/include/nccl.h" ] ||
        echo '#include <nccl.h>' | gcc -I "$toolkit/include" -E - >/dev/null 2>&1
}

# need_toolkit: install it into .venv/ if it is nowhere.
need_toolkit() {
    if ! find_toolkit; then
        note "installing ${cuda_packages[*]}"
        need python3-venv || return
        [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv" || return
        logged toolkit "$root/.venv/bin/pip" install --disable-pip-version-check "${cuda_packages[@]}" || return
        chmod -f +x "$root"/.venv/lib/python3*/site-packages/nvidia/cu13/{bin,nvvm/bin}/* || true
        find_toolkit || return
    fi
    note "CUDA toolkit: $toolkit"
    if ! find_nccl; then
        note "installing $nccl_package"
        need python3-venv || return
        [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv" || return
        logged nccl "$root/.venv/bin/pip" install --disable-pip-version-check --no-deps "$nccl_package" || return
        find_nccl || return
    fi
}

# configure NAME FOLDER [MESON OPTION...]: set up a build folder, or bring an old one up to date.
configure() {
    local name=$1 folder=$2
    shift 2
    [ -z "$toolkit" ] || set -- "-Dtoolkit=$toolkit" "$@"
    [ -z "$nccl" ] || set -- "-Dnccl=$nccl" "$@"
    if [ -f "$root/$folder/build.ninja" ]; then
        # one that is older than an option learns of it when it is set up again
        meson configure "$root/$folder" "$@" >/dev/null 2>&1 </dev/null ||
            logged "$name-setup" meson setup --reconfigure "$root/$folder" "$root" "$@"
    else
        logged "$name-setup" meson setup "$root/$folder" "$root" "$@"
    fi
}

# compile NAME FOLDER
compile() {
    note "compiling $2/"
    logged "$1-build" meson compile -C "$root/$2"
}
