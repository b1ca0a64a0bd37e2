#!/bin/sh
# Keep one compressed copy of a folder for each of the last seven days.
set -eu

make_archive() {
    tar -czf "$2/$(basename "$1")-$(date +%u).tar.gz" -C "$(dirname "$1")" "$(basename "$1")"
}

make_archive "$1" "$2"
