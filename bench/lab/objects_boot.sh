# shellcheck shell=bash disable=SC2154 # set by bench/lab/objects
# A Debian that boots in QEMU from a disk image in the slow store. Sourced by bench/lab/objects.
#
# Kernel and initramfs are local; the root file system is the disk, over NBD. The clock runs from
# the start of the server to the login line on the serial console.

# The disk is made once, from Debian's packages, and kept beside the build.
make_disk() {
    local kept=${foreread%/*}/../objects-boot tool
    for tool in mmdebstrap mke2fs qemu-system-x86_64; do
        command -v $tool >/dev/null && continue
        missing+="QEMU's boot ($tool); "
        return 1
    done
    if ! [ -s "$kept/disk.img" ]; then
        say "making the disk of a Debian (mmdebstrap)"
        rm -rf "$kept" && mkdir -p "$kept" || return 1
        # shellcheck disable=SC2016
        mmdebstrap --mode=root --variant=minbase --aptopt='Acquire::Languages "none"' \
            --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,login,kmod \
            --customize-hook='echo lab >"$1/etc/hostname"' \
            bookworm "$LAB/debian" >"$kept/log" 2>&1 || {
            say "$(tail -n 3 "$kept/log")"
            return 1
        }
        cp "$LAB"/debian/boot/vmlinuz-* "$kept/vmlinuz" &&
            cp "$LAB"/debian/boot/initrd.img-* "$kept/initrd" &&
            mke2fs -q -t ext4 -d "$LAB/debian" "$kept/disk.img" 1G || return 1
        rm -rf "$LAB/debian"
    fi
    boot_files=$kept
    cp "$kept/disk.img" "$LAB/store/lab/disk.img"
}

# Each starts a server at $LAB/disk.
disk_foreread() {
    rm -f "$LAB/disk.overlay"
    "$foreread" serve s3://lab/disk.img --unix "$LAB/disk" --overlay "$LAB/disk.overlay" \
        --no-remember >>"$LAB/boot.log" 2>&1 &
}

disk_nbdkit() {
    TMPDIR=$LAB nbdkit -f -U "$LAB/disk" "$@" >>"$LAB/boot.log" 2>&1 &
}

disk_nbdkit_readahead() {
    disk_nbdkit --filter=cow --filter=readahead --filter=cache curl \
        "url=$AWS_ENDPOINT_URL/lab/disk.img" cache-on-read=true
}

disk_nbdkit_cache() {
    disk_nbdkit --filter=cow --filter=cache curl "url=$AWS_ENDPOINT_URL/lab/disk.img" \
        cache-on-read=true cache-min-block-size="$1"
}

disk_local() {
    nbdkit -f -U "$LAB/disk" --filter=cow file "$boot_files/disk.img" >>"$LAB/boot.log" 2>&1 &
}

# boot NAME COMMAND..: one boot from the server that the command starts.
boot_once() {
    local name=$1 start end server machine _
    shift
    rm -f "$LAB/disk" "$LAB/console"
    store_says reset >/dev/null
    start=$EPOCHREALTIME
    "$@"
    server=$!
    for _ in {1..500}; do
        [ -S "$LAB/disk" ] && break
        sleep 0.01
    done
    qemu-system-x86_64 -machine accel=tcg -m 512 -display none -no-reboot -nic none \
        -kernel "$boot_files/vmlinuz" -initrd "$boot_files/initrd" \
        -append 'root=/dev/vda rw console=ttyS0 quiet' \
        -drive "file=nbd:unix:$LAB/disk,format=raw,if=virtio" \
        -serial "file:$LAB/console" </dev/null >>"$LAB/boot.log" 2>&1 &
    machine=$!
    for _ in {1..6000}; do
        grep -qs 'lab login:' "$LAB/console" && break
        kill -0 $machine 2>/dev/null || break
        sleep 0.02
    done
    end=$EPOCHREALTIME
    kill $machine $server 2>/dev/null
    wait $machine $server 2>/dev/null
    if ! grep -q 'lab login:' "$LAB/console"; then
        say "$name: no login line: $(tail -n 2 "$LAB/console" "$LAB/boot.log")"
        return
    fi
    store_says stats | python3 "$root/bench/lab/objects_last.py" store A \
        "disk=$name" "round=$round" "start=$start" "end=$end" >>"$boots"
}

boot() {
    make_disk || { say "no boot: $missing" && return; }
    # A minute and more each: one round.
    round=0
    say "boot"
    (
        client_of A
        boot_once 'foreread serve --overlay' disk_foreread
        boot_once 'nbdkit, cow, readahead' disk_nbdkit_readahead
        boot_once 'nbdkit, cow, cache 64K' disk_nbdkit_cache 64K
        boot_once 'nbdkit, cow, cache 1M' disk_nbdkit_cache 1M
        boot_once 'a local file, nbdkit, cow' disk_local
    )
}
