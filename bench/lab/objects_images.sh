# shellcheck shell=bash disable=SC2154 # set by bench/lab/objects
# Programs in ext4 images that lie in the slow store. Sourced by bench/lab/objects.
#
#   files   100,000 small files in 1000 directories: find by their inodes
#   git     a repository, checked out: git status
#
# The time is compared with what the bytes that are needed take on the link, and ten round trips.
# The same is done with the image in a local file in memory: that takes the kernel's requests to the
# mount, and the program's own time.

make_images() {
    say "making images of 100,000 files and of a repository"
    mkdir "$LAB/tree" "$LAB/git"
    (cd "$LAB/tree" && fill_files) && (cd "$LAB/git" && fill_repository) || exit 1
    mke2fs -q -t ext4 -N 120000 -d "$LAB/tree" "$LAB/store/lab/files.ext4" 1G || exit 1
    mke2fs -q -t ext4 -d "$LAB/git" "$LAB/store/lab/git.ext4" 1G || exit 1
    needed_find=$(needed "$LAB/tree")
    needed_status=$(($(needed "$LAB/git") + $(stat -c %s "$LAB/git/.git/index")))
    rm -rf "$LAB/tree" "$LAB/git"
}

# needed DIR: the bytes of its inodes and directories.
needed() {
    find "$1" -printf '%y\n' | awk '{ sum += 256 + ($1 == "d" ? 4096 : 0) } END { print sum }'
}

fill_files() {
    python3 - <<'END_OF_PROGRAM'
import os, random
rng = random.Random(1)
for d in range(1000):
    path = 'd%02d/e%02d' % (d // 50, d % 50)
    os.makedirs(path)
    for f in range(100):
        with open(path + '/f%d' % f, 'wb') as file:
            file.write(b'x' * rng.choice([0, 0, 100, 1000, 3000]))
END_OF_PROGRAM
}

# The image has other inodes and times of change than the tree that it is made of, so git is told
# to look at lengths and times of writing only.
fill_repository() {
    python3 - <<'END_OF_PROGRAM'
import os, random
rng = random.Random(2)
for d in range(400):
    path = 'src%02d/mod%02d' % (d // 20, d % 20)
    os.makedirs(path)
    for f in range(rng.randrange(10, 40)):
        with open(path + '/f%02d.c' % f, 'wb') as file:
            file.write(rng.randbytes(rng.randrange(20, 3000)).hex().encode())
END_OF_PROGRAM
    git init -q . && git config user.email lab@localhost && git config user.name lab &&
        git config gc.auto 0 && git config core.checkStat minimal &&
        git config core.trustctime false &&
        git add -A && git commit -qm all && git gc -q && sleep 1.1 && git status >/dev/null
}

store_says() { curl -s "$(sed -n 's/^control //p' "$STORE")/$1"; }

# in_image WHAT TARGET NEEDED COMMAND..: one cold run; the clock starts before the mount.
in_image() {
    local what=$1 target=$2 needed=$3 server start end rate
    shift 3
    mkdir -p "$LAB/image"
    : >"$LAB/said"
    store_says reset >/dev/null
    start=$EPOCHREALTIME
    "$foreread" mount "$target" "$LAB/image" --no-remember 2>"$LAB/said" &
    server=$!
    until [ -s "$LAB/said" ]; do kill -0 $server && sleep 0.002 || exit 1; done
    (cd "$LAB/image" && "$@" >"$LAB/out") || say "$what has failed"
    end=$EPOCHREALTIME
    umount "$LAB/image" && wait $server
    rate=$(python3 "$root/bench/lab/objects_last.py" "$runs" A limit16 mb_per_s)
    store_says stats | python3 "$root/bench/lab/objects_last.py" store A \
        "what=$what" "round=$round" "start=$start" "end=$end" "needed=$needed" "rate=$rate" \
        >>"$images"
}

images() {
    make_images
    for ((round = 0; round < rounds; round++)); do
        say "images: round $((round + 1)) of $rounds"
        limit A
        (
            client_of A
            for from in s3://lab "$LAB/store/lab"; do
                where=$([ "$from" = s3://lab ] || echo ', the image in a local file')
                in_image "find of 100,000 files by size$where" "$from/files.ext4" "$needed_find" \
                    find . -size 0
                in_image "git status$where" "$from/git.ext4" "$needed_status" \
                    git -c safe.directory='*' --no-optional-locks status --porcelain
            done
        )
    done
}

# client_of LINK: the environment of clients of a link.
client_of() {
    export AWS_ACCESS_KEY_ID=lab AWS_SECRET_ACCESS_KEY=labsecret AWS_REGION=us-east-1
    AWS_ENDPOINT_URL=$(sed -n "s/^$1 //p" "$STORE")
    export AWS_ENDPOINT_URL
}
