# The difference of a counter over a measurement, from a file of records.
edge() { # FILE MEASUREMENT EDGE COUNTER
    sed -n 's/^.*"snapshot":{"measure":"'"$2"'","edge":"'"$3"'",.*"vmstat":{\([^}]*\)}.*$/\1/p' "$1" |
        tr ',' '\n' | sed -n 's/^"'"$4"'":\(-\{0,1\}[0-9][0-9]*\)$/\1/p'
}

command -v "$qemu" >/dev/null || {
    echo "there is no $qemu: install it, or name one in QEMU" >&2
    exit 3
}
sha256sum --quiet -c SHA256SUMS || {
    echo "this bundle is damaged" >&2
    exit 3
}
now=$("$qemu" --version | sed -n 's/^QEMU emulator version //p')
[ "$now" = "$then" ] || printf 'warning: the run was made with QEMU %s,\nand is repeated with QEMU %s\n' "$then" "$now" >&2
rm -rf out
mkdir out
guest || {
    echo "QEMU ended with exit code $?; the guest's console is in out/console.log" >&2
    exit 3
}

printf '%-20s %-28s %12s %12s\n' measurement counter then now
while read -r measure counter value; do
    begin=$(edge out/records.jsonl "$measure" begin "$counter")
    end=$(edge out/records.jsonl "$measure" end "$counter")
    shown=missing
    [ -z "$begin" ] || [ -z "$end" ] || shown=$((end - begin))
    printf '%-20s %-28s %12s %12s\n' "$measure" "$counter" "$value" "$shown"
done <expected/counters

if cmp out/records.jsonl expected/records.jsonl; then
    echo "identical: $(($(wc -l <out/records.jsonl))) records"
    cmp -s out/console.log expected/console.log || echo "note: the console differs: out/console.log"
    exit 0
fi
echo "the records differ: out/records.jsonl, expected/records.jsonl"
[ "$now" = "$then" ] || exit 3
exit 1
