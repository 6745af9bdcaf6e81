# Slow block devices that are the same on every machine. Sourced, as root.
#
#   nbdkit: memory, delayed --unix socket--> nbdfuse: a file --> loop device, direct
#
#   D1  one request at a time, 4 ms each, whatever its size: what a disk's head costs
#   D2  eight requests at a time, 1 ms each: what flash or a network costs
#   M1  one request at a time, 1 ms each, over a file that is given: an image, read at leisure
#
# No seek, no bandwidth: only the number of requests, and how many are under way, cost time.

LAB=${FOREREAD_LAB:-/run/foreread-lab}

# lab_up D1|D2, lab_up M1 FILE: sets DEVICE to the loop device.
lab_up() {
    local delay serialize backing=(memory 2G)
    case $1 in
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
# that is what it should do.
lab_check() {
    local depth rates=() least
    case $1 in
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
