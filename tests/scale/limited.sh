# limited BYTES COMMAND…: run a command in a memory cgroup of its own (version 1
# or 2), so that taking more ends it. Where there is no right to make one, say so
# and run it without. Source this file.
limited() {
  local bytes=$1 group="" name="goagnes-$$-$RANDOM"
  shift
  if [ -w /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/$name
    { mkdir "$group" && echo "$bytes" >"$group/memory.limit_in_bytes"; } 2>/dev/null || group=""
  elif [ -w /sys/fs/cgroup ] && [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    group=/sys/fs/cgroup/$name
    { mkdir "$group" && echo "$bytes" >"$group/memory.max"; } 2>/dev/null || group=""
  fi
  if [ -z "$group" ]; then
    echo "no right to limit memory here: running without a limit" >&2
    "$@"
    return
  fi
  (
    echo "$BASHPID" >"$group/cgroup.procs" && exec "$@"
  )
  local status=$?
  rmdir "$group" 2>/dev/null
  return $status
}
