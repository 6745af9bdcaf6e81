# The tables of bench/lab/nbd. Sourced.

# nbd_tables FIGURES CHECKS: Markdown. FIGURES has SECTION|ROW|SERVER|ROUND|UNIT|VALUE lines; the
# ratios are medians over rounds, each of runs of the same round.
nbd_tables() {
    awk -F'|' -v checks="$2" '
        function median(list, n,   i, j, x) {
            for (i = 2; i <= n; i++) {
                x = list[i]
                for (j = i - 1; j > 0 && list[j] > x; j--) list[j + 1] = list[j]
                list[j + 1] = x
            }
            return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        }
        function shown(x) { return x < 100 ? sprintf("%.1f", x) : sprintf("%.0f", x) }
        function cell(s, r, v,   i, n, m) {
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
            if (s == "cached") return 1
            return r == "rand4k" ? v == "direct" : v != "bare"
        }
        function ratio(s, r,   i, k, n, best) {
            n = 0
            for (i = 0; i < rounds; i++) {
                best = 0
                for (k = 1; k <= servers[s]; k++)
                    if (is_peer(s, r, server[s, k]) && of[s, r, server[s, k], i] > best)
                        best = of[s, r, server[s, k], i]
                if (best && (s, r, "foreread", i) in of) list[++n] = of[s, r, "foreread", i] / best
            }
            return n ? sprintf("%.2f x", median(list, n)) : "-"
        }
        function due(s, r) {
            if (s == "cached") {
                if (r ~ /batching/) return "2.00"
                if (r ~ /rand 4K, one/) return "1.10"
                if (r ~ /rand 4K, 32/) return "1.30"
                return r ~ /1M, 8/ ? "1.20" : "-"
            }
            if (s ~ /eight/) return "0.90"
            if (r == "rand4k") return "0.98"
            return r ~ /inter2/ ? "1.00" : "0.97"
        }
        {
            if (!(($1) in rows)) section[++sections] = $1
            if (!(($1, $2) in unit)) { row[$1, ++rows[$1]] = $2; unit[$1, $2] = $5 }
            if (!(($1, $3) in seen)) { seen[$1, $3]; server[$1, ++servers[$1]] = $3 }
            of[$1, $2, $3, $4] = $6
            if ($4 >= rounds) rounds = $4 + 1
        }
        END {
            for (i = 1; i <= sections; i++) {
                s = section[i]
                printf "\n## %s\n\n", s
                device = substr(s, 1, 2)
                while ((getline line < checks) > 0)
                    if (device != "ca" && sub("^" device ": ", "", line)) print line
                close(checks)
                if (device != "ca") print ""
                # Ours last, in whatever order they ran.
                n = 0
                for (k = 1; k <= servers[s]; k++)
                    if (server[s, k] != "foreread") name[++n] = server[s, k]
                name[++n] = "foreread"
                printf "|"
                for (k = 1; k <= n; k++) printf " | %s", name[k]
                printf " | beside the best | due |\n|---|"
                for (k = 1; k <= n + 2; k++) printf "---|"
                printf "\n"
                for (j = 1; j <= rows[s]; j++) {
                    r = row[s, j]
                    printf "| %s (%s)", r, unit[s, r]
                    for (k = 1; k <= n; k++) printf " | %s", cell(s, r, name[k])
                    printf " | %s | %s |\n", ratio(s, r), due(s, r)
                }
            }
        }' "$1"
}
