# Sourced by cmake/setup and tests/run.

# Makes programs and libraries that were unpacked into ROOT/.deps usable from here on.
# Nothing there counts if set-up was interrupted while it unpacked.
use_unpacked() {
  local root=$1 folder
  [[ -e $root/.deps/complete && :$PATH: != *":$root/.deps/usr/bin:"* ]] || return 0
  export PATH=$PATH:$root/.deps/usr/bin
  for folder in "$root"/.deps/{usr/,}lib/"$(uname -m)"-linux-gnu; do
    [[ ! -d $folder ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
}
