#!/usr/bin/env bash
# Makes sure that everything that the build needs outside cargo is there.
#
# On Debian and its derivatives what is missing is installed with apt-get (as root, or through
# sudo); elsewhere the missing tools are listed with the packages that bring them, and the
# script fails. It does nothing, and prints nothing, on a machine that has everything.
#
#   cc, make, cmake, pkg-config  build the emulator's and the disassembler's C sources
#   libclang                     reads the emulator's C headers to make its Rust bindings
#   clang, ld.lld                compile and link the guest programs, for both architectures
#
# With the word `long` it also sees to what only `make test-long` needs:
#
#   qemu-system-aarch64, qemu-system-x86_64   the oracle of the long walks
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

# The C library's headers as well as the compiler: a compiler alone builds nothing.
have_cc() { have cc && echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1; }

# Looked for where the bindings generator looks: an explicit path, clang's own library folders,
# the loader's cache.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    compgen -G '/usr/lib/llvm*/lib/libclang[-.]*so*' >/dev/null && return 0
    compgen -G '/usr/lib*/libclang.so*' >/dev/null && return 0
    compgen -G '/opt/homebrew/opt/llvm/lib/libclang.*' >/dev/null && return 0
    have ldconfig && ldconfig -p 2>/dev/null | grep -q 'libclang[-.].*so'
}

missing=()   # what is missing, in words
packages=()  # the Debian packages that bring it
want() {     # want CHECK NAME PACKAGE...
    local check=$1 name=$2
    shift 2
    if ! $check; then
        missing+=("$name")
        packages+=("$@")
    fi
}
want have_cc 'a C compiler with the C library headers' gcc g++ libc6-dev
want 'have make' make make
want 'have cmake' cmake cmake
want 'have pkg-config' pkg-config pkg-config
want 'have clang' clang clang
want 'have ld.lld' ld.lld lld
want have_libclang libclang libclang-dev
if [ "${1:-}" = long ]; then
    want 'have qemu-system-aarch64' qemu-system-aarch64 qemu-system-arm
    want 'have qemu-system-x86_64' qemu-system-x86_64 qemu-system-x86
fi

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if [ ${#missing[@]} -gt 0 ]; then
    echo "mmuscope: missing: $(printf '%s, ' "${missing[@]}" | sed 's/, $//')" >&2
    if have apt-get && { [ "$(id -u)" = 0 ] || have sudo; }; then
        echo "mmuscope: installing with apt-get: ${packages[*]}" >&2
        as_root apt-get update -q >&2
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends "${packages[@]}" >&2 </dev/null
        echo 'mmuscope: installed' >&2
    else
        cat >&2 <<'LIST'
mmuscope: please install them and run make again; the packages are
  Debian, Ubuntu   apt-get install gcc g++ libc6-dev make cmake pkg-config clang lld libclang-dev
  Fedora, RHEL     dnf install gcc gcc-c++ make cmake pkgconf clang lld clang-devel
  Arch             pacman -S base-devel cmake pkgconf clang lld
  openSUSE         zypper install gcc gcc-c++ make cmake pkg-config clang lld clang-devel
  Alpine           apk add build-base cmake pkgconf clang lld clang-dev
  macOS            brew install cmake pkgconf llvm lld   (and put their bin folders in PATH)
QEMU's system emulators are in qemu-system-arm and qemu-system-x86 (Debian, Ubuntu), in packages
whose names begin with qemu-system (Fedora, Arch, Alpine), or in qemu (openSUSE, macOS).
LIST
        exit 1
    fi
fi

# rustup may be installed without its PATH line having been read in this shell.
if ! have cargo && [ ! -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    echo 'mmuscope: cargo is missing: install Rust with rustup, see https://rustup.rs' >&2
    exit 1
fi
