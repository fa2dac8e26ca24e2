#!/bin/sh
# A write policy of strfry: takes events of the public keys in allowed.txt only. It needs no program but the shell.
#
# strfry starts this program once, writes one line of JSON for each event, and waits for one line. The first `"pubkey":"` of
# such a line is the event's own: inside of JSON strings each quote has a backslash before it, so no text of a client looks
# like this. The list is read for each event, so that a change counts at once; without a list, nothing is taken.

list=${1:-/etc/strfry-allowed.txt}

# The value of a field of the line, if it is 64 hex digits, else nothing.
field() {
    rest=${line#*\"$1\":\"}
    found=${rest%%\"*}
    case $found in
        *[!0-9a-f]*) found= ;;
    esac
    [ ${#found} -eq 64 ] || found=
}

is_allowed() {
    [ -r "$list" ] || return 1
    while IFS= read -r key || [ -n "$key" ]; do
        case $key in
            '*' | "$1") return 0 ;;
        esac
    done < "$list"
    return 1
}

while IFS= read -r line; do
    field pubkey
    author=$found
    field id
    if [ -n "$author" ] && is_allowed "$author"; then
        printf '{"id":"%s","action":"accept"}\n' "$found"
    else
        printf '{"id":"%s","action":"reject","msg":"blocked: not on the list"}\n' "$found"
    fi
done
