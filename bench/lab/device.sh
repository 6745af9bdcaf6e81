# Slow block devices that are the same on every machine. Sourced, as root.
#
#   nbdkit: memory, delayed --unix socket--> nbdfuse: a file --> loop device, direct
#
#   D1  one request at a time, 4 ms each, whatever its size: what a disk's head costs
#   D2  eight requests at a time, 1 ms each: what flash or a network costs
#   M1  one request at a time, 1 ms each, over a file that is given: an image, read at leisure
#
# No seek, no bandwidth: only the number of requests, and how many are under way, cost time.
#
#   B1  2 GB/s for all requests together, and no delay: zram that was never written, whose reads are
#       a memset, behind the kernel's throttling of block devices (cgroup v1, blkio). A reader at
#       full rate takes 4 to 20 % of a processor, where D2 needs two (threads of the kernel, which
#       carry throttled requests, are not counted). Its rate is exact to 1 % over half a second and
#       more, but requests pass in bursts: after a tenth of a second's budget they wait for up to 80
#       ms.

LAB=${FOREREAD_LAB:-/run/foreread-lab}

# lab_up D1|D2|B1, lab_up M1 FILE: sets DEVICE to the block device.
lab_up() {
    local delay serialize backing=(memory 2G)
    case $1 in
        B1) lab_up_throttled 2000000000; return ;;
        D1) delay=4ms serialize=all-requests ;;
        D2) delay=1ms serialize=requests ;;
        M1) delay=1ms serialize=all-requests backing=(file "$2") ;;
        *) say "no such device: $1" && return 2 ;;
    esac
    # The directory is the lock: only the run that made it takes the lab down.
    if ! mkdir "$LAB"; then
        say "a lab is up already; if it is unused: ./dev bench lab down"
        return 2
    fi
    lab_is_ours=yes
    mkdir "$LAB/mount" && touch "$LAB/mount/device"
    # No holes: a client that knows of them would not ask for them, and not wait.
    # Out of our process group, and a daemon: else Ctrl-C would end it before what is above it.
    setsid nbdkit -t 64 -U "$LAB/socket" -P "$LAB/nbdkit.pid" \
        --filter=noextents --filter=noparallel --filter=delay "${backing[@]}" \
        rdelay=$delay wdelay=$delay serialize=$serialize </dev/null >"$LAB/nbdkit.log" 2>&1 &&
        lab_wait "$LAB/nbdkit.pid" || return 1
    # Eight connections: each serves one request at a time.
    setsid nohup nbdfuse -C 8 -P "$LAB/nbdfuse.pid" "$LAB/mount/device" \
        "nbd+unix:///?socket=$LAB/socket" </dev/null >"$LAB/nbdfuse.log" 2>&1 &
    disown
    lab_wait "$LAB/mount/device" || return 1
    DEVICE=$(losetup -f --show --direct-io=on "$LAB/mount/device") || return 1
    echo "$DEVICE" >"$LAB/loop"
    # FUSE splits what is larger, and the halves would queue behind each other.
    echo 1024 >"/sys/block/${DEVICE#/dev/}/queue/max_sectors_kb"
    # A loop device keeps what its last user left: the scheduler's settings, and how many requests
    # it gets at once. Changes undo that; a value that is there already is no change.
    local queue=/sys/block/${DEVICE#/dev/}/queue
    echo none >"$queue/scheduler"
    echo 127 >"$queue/nr_requests"
    echo 128 >"$queue/nr_requests"
    echo mq-deadline >"$queue/scheduler"
    echo 128 >"$queue/read_ahead_kb"
}

# lab_up_throttled BYTES-PER-SECOND: this shell and its children are throttled from here on.
lab_up_throttled() {
    local control=/sys/class/zram-control group=/sys/fs/cgroup/blkio/foreread-lab number
    if ! [ -e $control/hot_add ] || ! [ -e "${group%/*}/blkio.throttle.read_bps_device" ]; then
        say "B1 needs zram and throttling by cgroup v1 (blkio); this kernel does not offer both"
        return 1
    fi
    if ! mkdir "$LAB"; then
        say "a lab is up already; if it is unused: ./dev bench lab down"
        return 2
    fi
    lab_is_ours=yes
    number=$(cat $control/hot_add) && echo "$number" >"$LAB/zram" || return 1
    DEVICE=/dev/zram$number
    echo 4G >"/sys/block/zram$number/disksize" || return 1
    echo 128 >"/sys/block/zram$number/queue/read_ahead_kb"
    # Back there at the end: a group with processes cannot be removed.
    sed -n 's/^[0-9]*:blkio://p' /proc/self/cgroup >"$LAB/group"
    mkdir -p $group
    echo "$(cat "/sys/block/zram$number/dev") $1" >$group/blkio.throttle.read_bps_device &&
        echo $$ >$group/cgroup.procs
}

# lab_wait FILE: until there is something in it.
lab_wait() {
    local i
    for i in {1..200}; do
        [ -s "$1" ] && return
        sleep 0.05
    done
    say "the lab does not come up: $(cat "$LAB"/*.log)"
    return 1
}

# lab_down: from the top to the bottom; what did not come up is skipped.
lab_down() {
    [ "${lab_is_ours:-}" = yes ] || return 0
    local group=/sys/fs/cgroup/blkio/foreread-lab
    if [ -s "$LAB/zram" ]; then
        [ -s "$LAB/group" ] && echo $$ >"${group%/*}$(cat "$LAB/group")/cgroup.procs"
        echo 1 >"/sys/block/zram$(cat "$LAB/zram")/reset"
        cat "$LAB/zram" >/sys/class/zram-control/hot_remove
        [ -d $group ] && rmdir $group
    fi
    [ -s "$LAB/loop" ] && losetup -d "$(cat "$LAB/loop")"
    # The loop device lets go of the file a moment later.
    local i name
    for i in {1..50}; do
        mountpoint -q "$LAB/mount/device" || break
        umount "$LAB/mount/device" 2>/dev/null || sleep 0.1
    done
    mountpoint -q "$LAB/mount/device" && umount -l "$LAB/mount/device"
    for name in nbdfuse nbdkit; do
        [ -s "$LAB/$name.pid" ] && kill "$(cat "$LAB/$name.pid")" 2>/dev/null
    done
    rm -rf "$LAB"
    lab_is_ours=no
}

# lab_check D1|D2: says how many random reads a second it does, one and eight at a time, and whether
# that is what it should do. lab_check B1: its rate.
lab_check() {
    local depth rates=() least rate
    case $1 in
        B1)
            rate=$(fio --name=check --filename="$DEVICE" --readonly --rw=read --bs=1m --direct=1 \
                --ioengine=io_uring --iodepth=8 --time_based --runtime=2 --output-format=terse \
                --terse-version=3 2>/dev/null | awk -F';' '{ printf "%.0f", $7 * 1024 / 1e6 }')
            echo "B1: $rate MB/s, eight reads of 1 MiB at a time."
            return
            ;;
        D1) least=220 ;; # of 244
        D2) least=5000 ;; # of 6800
    esac
    for depth in 1 8; do
        rates+=("$(fio --name=check --filename="$DEVICE" --readonly --rw=randread --bs=4k \
            --direct=1 --ioengine=io_uring --iodepth=$depth --time_based --runtime=2 \
            --output-format=terse --terse-version=3 2>/dev/null | cut -d';' -f8)")
    done
    echo "$1: ${rates[0]} random reads a second one at a time, ${rates[1]} eight at a time."
    if [ "${rates[1]:-0}" -lt $least ]; then
        echo "$1: **At least $least are due: the machine is too busy for these figures.**"
    fi
}

# markdown COMMAND TABLE: a command and the table that `foreread bench` has printed, as Markdown.
# Its rows become a table of Markdown, which may be as wide as it is; its target is named elsewhere.
markdown() {
    printf '\n```text\n'
    fold -s -w 95 <<<"$ $1" | sed '$!s/$/\\/'
    sed -e 1d -e '/^$/,$d' "$2" | fold -s -w 100 | sed 's/ *$//'
    printf '```\n\n'
    sed '1,/^$/d' "$2" | awk -F'   *' '
        { printf "|"; for (i = 1; i <= NF; i++) printf " %s |", $i; printf "\n" }
        NR == 1 { printf "|---|"; for (i = 2; i <= NF; i++) printf "---:|"; printf "\n" }'
}
