# Runs one service, and ends it when the process that asked for it is gone, however that ended.
#
# Arguments: the folder of all, the folder of this service, the command. Standard input is a pipe that the owner holds:
# a line is the name of a signal for the service, answered by a line when it is sent, or "leave", which ends the
# supervisor of a dead service; its end means that the owner is gone: the service is killed, the folder of all removed.
all=$1 own=$2
shift 2
exec 3<&0
"$@" >>"$own/log" 2>&1 3<&- &
service=$!
echo "$service"
(
    while read -r order; do
        [ "$order" = leave ] && exit 0
        # A dead service's number may by now be another process's.
        [ -e "$own/ended" ] || kill -s "$order" "$service"
        echo "$order"
    done
    [ -e "$own/ended" ] || kill -s KILL "$service"
    exit 1
) <&3 2>/dev/null &
orders=$!
exec 3<&-
wait "$service"
echo $? >"$own/status"
mv "$own/status" "$own/ended"
wait "$orders" || rm -rf "$all"
