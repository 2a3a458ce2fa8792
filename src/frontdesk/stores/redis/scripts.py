"""The Lua scripts that run on the server. Each is atomic, and takes one round trip.

For a state, KEYS[1] is its hash, KEYS[2] the set of the names of all states with the same id. Times are microseconds: a
double represents them exactly, but Lua would print them rounded, so `text` formats them. The server removes an expired
key up to a millisecond late; `live` keeps it from being returned in between. A hash that lacks a field, or a key of
another type, is `damaged`: it can be deleted, and nothing else.
"""

from __future__ import annotations

import hashlib

DAMAGED = "DAMAGED"
"""how the error of a damaged state begins"""

_TIME = """
local function text(number) return string.format('%.0f', number) end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
"""

_STATE = (
    _TIME
    + """
local function live(ttl, accessed) return ttl == '' or now < accessed + ttl end
local function keep(ttl)
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SADD', KEYS[2], ARGV[1])
  if ttl == '' then
    redis.call('PERSIST', KEYS[1])
    if left >= 0 then redis.call('PERSIST', KEYS[2]) end
    return
  end
  redis.call('PEXPIREAT', KEYS[1], text(math.floor((now + ttl) / 1000)))
  local most = math.ceil(ttl / 1000) + 1
  if left == -2 or (left >= 0 and left < most) then redis.call('PEXPIRE', KEYS[2], text(2 * most)) end
end
local function load(key)
  local row = redis.pcall('HMGET', key, 'mark', 'version', 'ttl', 'created', 'accessed', 'type', 'owner')
  if row.err then return row, false, true end
  local found = 0
  for n = 1, 7 do if row[n] then found = found + 1 end end
  if found == 0 then return row, false, redis.call('EXISTS', key) == 1 end
  if found < 7 then return row, false, true end
  for _, n in ipairs({2, 4, 5, 6}) do
    if not string.match(row[n], '^%d+$') then return row, false, true end
  end
  if not string.match(row[3], '^%d*$') then return row, false, true end
  if row[7] ~= '' and select(2, string.gsub(row[7], '%z', '')) ~= 3 then return row, false, true end
  return row, live(row[3], row[5]), false
end
local row, there, damaged = load(KEYS[1])
"""
)

_WHOLE = f"""
if damaged then return redis.error_reply('{DAMAGED} a state') end
"""


class Script:
    """A script, and the digest under which a server caches it after its first use. `changes` says that it creates,
    changes or deletes a state."""

    def __init__(self, text: str, *, changes: bool = False) -> None:
        self.text = text
        self.changes = changes
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def _for_state(body: str, *, also_damaged: bool = False, changes: bool = False) -> Script:
    return Script(_STATE + ("" if also_damaged else _WHOLE) + body, changes=changes)


PEEK = _for_state("""
if not there then return false end
if ARGV[2] == 'value' then row[8] = redis.call('HGET', KEYS[1], 'value') end
return row
""")

SLIDE = _for_state("""
if not there then return false end
row[5] = text(now)
redis.call('HSET', KEYS[1], 'accessed', row[5])
keep(row[3])
if ARGV[2] == 'value' then row[8] = redis.call('HGET', KEYS[1], 'value') end
return row
""")

CREATE = _for_state(
    """
if there and row[1] ~= ARGV[3] then return false end
local time = text(now)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'mark', ARGV[3], 'ttl', ARGV[4], 'type', ARGV[5], 'owner', ARGV[6],
  'version', '1', 'created', time, 'accessed', time)
keep(ARGV[4])
return {ARGV[3], '1', ARGV[4], time, time, ARGV[5], ARGV[6]}
""",
    changes=True,
)

# ARGV[7] is the mark that the caller has seen. ARGV[8] says that the index has the entries of this owner and
# time-to-live; without it, a write that changes one of them is refused with 0. Returns the previous owner last.
REPLACE = _for_state(
    """
if not there or (row[1] ~= ARGV[7] and row[1] ~= ARGV[3]) then return false end
if ARGV[8] == '' and (row[3] ~= ARGV[4] or row[7] ~= ARGV[6]) then return 0 end
if row[1] ~= ARGV[3] then row[2] = text(row[2] + 1) end
row[5] = text(now)
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'mark', ARGV[3], 'ttl', ARGV[4], 'type', ARGV[5], 'owner', ARGV[6],
  'version', row[2], 'accessed', row[5])
keep(ARGV[4])
return {ARGV[3], row[2], ARGV[4], row[4], row[5], ARGV[5], ARGV[6], row[7]}
""",
    changes=True,
)

# If ARGV[2] is "owner", only a state with the owner ARGV[3] is deleted, or a damaged one: the index alone knows its
# owner. If ARGV[4] is not empty, only a state with this mark is deleted. Returns whether there was one, and its owner.
DELETE = _for_state(
    """
local owner = not damaged and row[7] or ''
if ARGV[2] == 'owner' and not damaged and owner ~= ARGV[3] then return {0, ''} end
if ARGV[4] ~= '' and (damaged or not there or row[1] ~= ARGV[4]) then return {0, ''} end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return {(there or damaged) and 1 or 0, owner}
""",
    also_damaged=True,
    changes=True,
)

# The index. KEYS[1] holds the entries in order, KEYS[2] when to check each of them. The time of a check also says
# whether an entry was put again: no two puts have the same.

# ARGV[1] is after how many microseconds to check the entries that follow.
PUT = Script(
    _TIME
    + """
local due = text(now + ARGV[1])
for n = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 0, ARGV[n])
  redis.call('ZADD', KEYS[2], due, ARGV[n])
end
"""
)

# When to check each of these entries.
CHECKS = Script("return redis.call('ZMSCORE', KEYS[2], unpack(ARGV))")

# Up to ARGV[1] entries that are due, each followed by its time.
DUE = Script(
    _TIME + "return redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])"
)

# For each entry: the entry, the time of its check as it was read, and that of the next one; empty if its state is gone.
# An entry that was put again meanwhile stays as it is.
SETTLE = Script("""
for n = 1, #ARGV, 3 do
  if (redis.call('ZSCORE', KEYS[2], ARGV[n]) or '') == ARGV[n + 1] then
    if ARGV[n + 2] == '' then
      redis.call('ZREM', KEYS[1], ARGV[n])
      redis.call('ZREM', KEYS[2], ARGV[n])
    else
      redis.call('ZADD', KEYS[2], ARGV[n + 2], ARGV[n])
    end
  end
end
""")
