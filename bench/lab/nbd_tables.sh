# The tables of bench/lab/nbd. Sourced.

# nbd_tables FIGURES CHECKS: Markdown. FIGURES has SECTION|ROW|SERVER|ROUND|UNIT|VALUE|CPU lines;
# CPU is in seconds a GB, or empty. The ratios are medians over rounds, each of runs of the
# same round.
nbd_tables() {
    awk -F'|' -v checks="$2" '
        function sort(list, n,   i, j, x) {
            for (i = 2; i <= n; i++) {
                x = list[i]
                for (j = i - 1; j > 0 && list[j] > x; j--) list[j + 1] = list[j]
                list[j + 1] = x
            }
        }
        function median(list, n) {
            sort(list, n)
            return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        }
        function shown(x) { return sprintf(x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x) }
        # of: rates, or processor time.
        function cell(of, s, r, v,   i, n, m, list) {
            n = 0
            for (i = 0; i < rounds; i++) if ((s, r, v, i) in of) list[++n] = of[s, r, v, i]
            if (!n) return "-"
            m = median(list, n)
            return shown(m) " [" shown(list[1]) "-" shown(list[n]) "]"
        }
        # The servers to compare with: all others. But random reads are compared with the server
        # that reads the same device without a cache, since a cache does not help them; eight
        # clients, with fio at the same request size.
        function is_peer(s, r, v) {
            if (v == "foreread") return 0
            if (s ~ /eight/) return v == "fio-64k"
            if (s ~ /^cached/) return 1
            return r == "rand4k" ? v == "direct" : v != "bare"
        }
        # Whose processor time is compared: nbdkit, over memory or the page cache.
        function is_cpu_peer(v) { return v ~ /^nbdkit-(memory|file)$/ || v == "page-cache" }
        function ratio(of, is_cpu, s, r,   i, k, v, x, n, best, list, m) {
            n = 0
            for (i = 0; i < rounds; i++) {
                best = 0
                for (k = 1; k <= servers[s]; k++) {
                    v = server[s, k]
                    if (!((s, r, v, i) in of) || !(is_cpu ? is_cpu_peer(v) : is_peer(s, r, v)))
                        continue
                    x = of[s, r, v, i]
                    if (!best || (is_cpu ? x < best : x > best)) best = x
                }
                if (best && (s, r, "foreread", i) in of) list[++n] = of[s, r, "foreread", i] / best
            }
            if (!n) return "-"
            m = median(list, n)
            return sprintf("%.2f x [%.2f-%.2f]", m, list[1], list[n])
        }
        function due(s, r) {
            if (s ~ /^cached/) {
                if (r ~ /batching/) return "2.00"
                if (r ~ /rand 4K, one/) return "1.10"
                if (r ~ /rand 4K, 32/) return "1.50"
                return r ~ /1M, 8/ ? "1.20" : "-"
            }
            if (s ~ /eight/) return "0.90"
            if (r == "rand4k") return "0.98"
            return r ~ /inter2/ ? "1.00" : "0.97"
        }
        function table(of, is_cpu, s,   n, k, j, r, name) {
            # Ours last, in whatever order they ran.
            n = 0
            for (k = 1; k <= servers[s]; k++)
                if (server[s, k] != "foreread" && !(is_cpu && server[s, k] ~ /^fio/))
                    name[++n] = server[s, k]
            name[++n] = "foreread"
            printf "\n|"
            for (k = 1; k <= n; k++) printf " | %s", name[k]
            printf " | %s | due |\n|---|", is_cpu ? "of nbdkit" : "beside the best"
            for (k = 1; k <= n + 2; k++) printf "---|"
            printf "\n"
            for (j = 1; j <= rows[s]; j++) {
                r = row[s, j]
                printf "| %s (%s)", r, is_cpu ? "CPU s/GB" : unit[s, r]
                for (k = 1; k <= n; k++) printf " | %s", cell(of, s, r, name[k])
                printf " | %s | %s |\n", ratio(of, is_cpu, s, r), is_cpu ? "1.00" : due(s, r)
            }
        }
        {
            if (!(($1) in rows)) section[++sections] = $1
            if (!(($1, $2) in unit)) { row[$1, ++rows[$1]] = $2; unit[$1, $2] = $5 }
            if (!(($1, $3) in seen)) { seen[$1, $3]; server[$1, ++servers[$1]] = $3 }
            rate[$1, $2, $3, $4] = $6
            if ($7 != "") { cpu[$1, $2, $3, $4] = $7; has_cpu[$1] }
            if ($4 >= rounds) rounds = $4 + 1
        }
        END {
            for (i = 1; i <= sections; i++) {
                s = section[i]
                printf "\n## %s\n", s
                device = substr(s, 1, 2)
                if (device != "ca") printf "\n"
                while ((getline line < checks) > 0)
                    if (device != "ca" && sub("^" device ": ", "", line)) print line
                close(checks)
                table(rate, 0, s)
                if (s in has_cpu) table(cpu, 1, s)
            }
        }' "$1"
}
