#!/bin/sh
# Tests the NBD server with other programs: nbdinfo, nbdcopy, nbdsh (libnbd), qemu-img, qemu-io, fio.
#
#   judges.sh SERVE_NBD [LEVEL DRIVES [SHARDS]]      SERVE_NBD: the built example `serve_nbd`
#
# Works in a folder of its own, which it removes; stops at the first failed program, and names it.
set -eu

serve=$1
work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || { exec 9>&-; wait "$server"; server=; }
}
cleanup() {
    code=$?
    stop || true
    rm -rf "$work"
    exit $code
}
trap cleanup EXIT

start() { # ADDRESS LEVEL DRIVES OPTIONS...: serves until fd 9 is closed
    mkfifo "$work/hold" 2>/dev/null || true
    "$serve" "$@" < "$work/hold" > "$work/says" 2> "$work/complains" 9>&- &
    server=$!
    exec 9> "$work/hold"
    for _ in $(seq 100); do
        [ -s "$work/says" ] && return
        kill -0 "$server" 2>/dev/null || { cat "$work/complains"; exit 1; }
        sleep 0.1
    done
    echo "the server did not come up"
    exit 1
}

judge() { # WHAT COMMAND...
    what=$1
    shift
    if ! "$@" > "$work/out" 2>&1; then
        echo "NOT OK  $level: $what"
        cat "$work/out"
        exit 1
    fi
    echo "ok      $level: $what"
}

nbdsh_says() { # WHAT SCRIPT: a Python script on the handle h, connected with base:allocation
    printf '%s\n' "$2" > "$work/script.py"
    judge "$1" env PATH="/usr/bin:$PATH" nbdsh --base-allocation -u "$uri" -c "exec(open('$work/script.py').read())"
}

fio_verify() { # WHAT OPTIONS...
    what=$1
    shift
    (cd "$work" && judge "$what" fio --name=verify --thread --ioengine=nbd --uri="$uri" --verify=crc32c --verify_fatal=1 \
        --exitall_on_error=1 --end_fsync=1 "$@")
}

all_judges() {
    size=$(nbdinfo --size "$uri")
    head -c "$size" /dev/urandom > "$work/image"
    judge "nbdinfo describes the export" nbdinfo --json "$uri"
    judge "nbdinfo lists the exports" nbdinfo --list "nbd+unix:///?socket=$socket"
    for can in flush fua trim zero cache multi-conn df "structured reply" "fast-zero"; do
        judge "nbdinfo says it can: $can" nbdinfo --can "$can" "$uri"
    done
    judge "nbdinfo says it is not read-only" sh -c "! nbdinfo --is read-only '$uri'"
    judge "nbdinfo --map" nbdinfo --map "$uri"
    judge "nbdcopy in, 4 connections" nbdcopy --connections=4 --flush "$work/image" "$uri"
    judge "nbdcopy out, 4 connections" nbdcopy --connections=4 "$uri" "$work/back"
    judge "  and it is the same" cmp "$work/image" "$work/back"
    judge "nbdcopy in, 1 connection, synchronous" nbdcopy --synchronous "$work/image" "$uri"
    judge "nbdcopy out with requests of 4 KiB" nbdcopy --request-size=4096 --requests=64 "$uri" "$work/back"
    judge "  and it is the same" cmp "$work/image" "$work/back"
    judge "qemu-img info" qemu-img info "$uri"
    judge "qemu-img compare" qemu-img compare -f raw -F raw "$work/image" "$uri"
    judge "qemu-img map" qemu-img map --output=json -f raw "$uri"
    truncate -s "$size" "$work/sparse"
    dd if="$work/image" of="$work/sparse" bs=64k count=4 seek=9 conv=notrunc status=none
    judge "qemu-img convert in, with holes" qemu-img convert -n -f raw -O raw "$work/sparse" "$uri"
    judge "qemu-img compare" qemu-img compare -f raw -F raw "$work/sparse" "$uri"
    judge "qemu-img convert in, 16 coroutines, out of order" \
        qemu-img convert -n -m 16 -W -f raw -O raw "$work/image" "$uri"
    judge "qemu-img convert out" qemu-img convert -f raw -O raw "$uri" "$work/back"
    judge "  and it is the same" cmp "$work/image" "$work/back"
    judge "qemu-img bench, 64 writes deep, flushes between" \
        qemu-img bench -f raw -w -d 64 -c 4000 -s 4096 --flush-interval=200 -t none "$uri"
    judge "qemu-io, unaligned and FUA" qemu-io -f raw \
        -c 'write -P 0x11 0 1M' -c 'write -P 0x22 12345 67' -c 'write -f -P 0x33 65535 2' -c 'write -f -P 0x44 200001 131072' \
        -c 'read -P 0x11 0 12345' -c 'read -P 0x22 12345 67' -c 'read -P 0x33 65535 2' -c 'read -P 0x44 200001 131072' \
        -c 'write -z 300000 100001' -c 'read -P 0 300000 100001' -c 'write -z -u 65536 65536' -c 'read -P 0 65536 65536' \
        -c 'discard 0 512k' -c 'flush' -c 'aio_write -P 0x55 1k 3k' -c 'aio_write -P 0x66 700k 100k' -c 'aio_flush' \
        -c 'read -P 0x55 1k 3k' -c 'read -P 0x66 700k 100k' "$uri"
    if grep -q 'Pattern verification failed' "$work/out"; then
        cat "$work/out"
        exit 1
    fi
    nbdsh_says "nbdsh: every command, aligned or not" '
import os, nbd
size = h.get_size()
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
longest = h.get_block_size(nbd.SIZE_MAXIMUM)
data = os.urandom(100003)
h.pwrite(data, 777, nbd.CMD_FLAG_FUA)
assert h.pread(100003, 777) == data
chunks = []
whole = h.pread_structured(100003, 777, lambda part, offset, status, error: chunks.append(offset), nbd.CMD_FLAG_DF)
assert whole == data and chunks == [777]
h.zero(1000, 1001, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
assert h.pread(1002, 1000) == data[223:224] + bytes(1000) + data[1224:1225]
h.trim(size, 0, nbd.CMD_FLAG_FUA)
h.flush()
h.cache(1 << 20, 0)
extents = []
h.block_status(size, 0, lambda context, offset, entries, error: extents.extend(entries))
assert sum(extents[::2]) <= size and len(extents) >= 2
one = []
h.block_status(size - 5, 5, lambda context, offset, entries, error: one.extend(entries), nbd.CMD_FLAG_REQ_ONE)
assert len(one) == 2
most = min(longest, size)
data = os.urandom(most)
h.pwrite(data, 0)
assert h.pread(most, 0) == data'
    nbdsh_says "nbdsh: what is not allowed is refused, and the connection goes on" '
import errno, nbd
size = h.get_size()
h.set_strict_mode(0)
def refused(code, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == code, (error, code)
        return
    raise AssertionError("accepted")
refused(errno.EINVAL, h.pread, 2, size - 1)
refused(errno.ENOSPC, h.pwrite, b"xx", size - 1)
refused(errno.ENOSPC, h.zero, 2, size - 1)
refused(errno.EINVAL, h.trim, 2, size - 1)
refused(errno.EINVAL, h.pread, 1, 0, 1 << 9)
refused(errno.ENOTSUP, h.zero, 4096, 0, nbd.CMD_FLAG_FAST_ZERO)
assert len(h.pread(512, 0)) == 512'
    nbdsh_says "nbdsh: 64 requests in flight, answered in any order" '
import os, nbd
data = [os.urandom(50000 + i) for i in range(64)]
buffers = [nbd.Buffer.from_bytearray(bytearray(d)) for d in data]
cookies = [h.aio_pwrite(b, i * 60000) for i, b in enumerate(buffers)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(c) for c in cookies)
buffers = [nbd.Buffer(len(d)) for d in data]
cookies = [h.aio_pread(b, i * 60000) for i, b in enumerate(buffers)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(c) for c in cookies)
assert all(b.to_bytearray() == d for b, d in zip(buffers, data))'
    fio_verify "fio verifies random writes and reads, 1 connection" --rw=randrw --bs=4k --iodepth=32 --size="$size"
    fio_verify "fio verifies mixed sizes, unaligned" --rw=randrw --bsrange=512-128k --blockalign=512 --iodepth=16 --size="$size"
    fio_verify "fio verifies 4 connections" --rw=randwrite --bs=16k --iodepth=8 --numjobs=4 --size=$((size / 4 / 65536 * 65536)) \
        --offset_increment=$((size / 4 / 65536 * 65536))
    fio_verify "fio verifies sequential writes of 1 MiB" --rw=write --bs=1M --iodepth=4 --size="$size"
}

run() { # LEVEL DRIVES OPTIONS...
    level=$1
    socket=$work/nbd.sock
    uri="nbd+unix:///v?socket=$socket"
    start "unix:$socket" "$@"
    all_judges
    stop
    judge "the server ended well" test ! -s "$work/complains"
}

if [ $# -gt 1 ]; then
    shift
    run "$@"
else
    run raid0 4xmem:16M
    run raid1 2xmem:48M
    run raid5 5xmem:12M --shards 2
fi
echo "no judge found fault"
