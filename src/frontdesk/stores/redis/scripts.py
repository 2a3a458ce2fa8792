"""The Lua scripts that run on the server. Each is atomic, and takes one round trip.

KEYS[1] is the hash of a state, KEYS[2] the set of the names of all states with the same id. Times are microseconds: a
double represents them exactly, but Lua would print them rounded, hence `text`. The server removes an expired key up to
a millisecond late; `live` keeps it from being returned in between.
"""

from __future__ import annotations

import hashlib

_COMMON = """
local function text(number) return string.format('%.0f', number) end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function live(ttl, accessed) return ttl == '' or now < accessed + ttl end
local function keep(ttl)
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SADD', KEYS[2], ARGV[1])
  if ttl == '' then
    if left >= 0 then redis.call('PERSIST', KEYS[2]) end
    return
  end
  redis.call('PEXPIREAT', KEYS[1], text(math.floor((now + ttl) / 1000)))
  local most = math.ceil(ttl / 1000) + 1
  if left == -2 or (left >= 0 and left < most) then redis.call('PEXPIRE', KEYS[2], text(2 * most)) end
end
local row = redis.call('HMGET', KEYS[1], 'mark', 'version', 'ttl', 'created', 'accessed')
local there = row[1] and live(row[3], row[5])
"""


class Script:
    """A script, and the digest under which a server caches it after its first use."""

    def __init__(self, body: str) -> None:
        self.text = _COMMON + body
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


PEEK = Script("""
if not there then return false end
row[6] = redis.call('HGET', KEYS[1], 'value')
return row
""")

SLIDE = Script("""
if not there then return false end
row[5] = text(now)
redis.call('HSET', KEYS[1], 'accessed', row[5])
keep(row[3])
if ARGV[2] == 'value' then row[6] = redis.call('HGET', KEYS[1], 'value') end
return row
""")

CREATE = Script("""
if there and row[1] ~= ARGV[4] then return false end
local time = text(now)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'ttl', ARGV[3], 'mark', ARGV[4],
  'version', '1', 'created', time, 'accessed', time)
keep(ARGV[3])
return {ARGV[4], '1', ARGV[3], time, time}
""")

REPLACE = Script("""
if not there or (row[1] ~= ARGV[4] and row[1] ~= ARGV[3]) then return false end
if row[1] ~= ARGV[3] then row[2] = text(row[2] + 1) end
row[1] = ARGV[3]
row[5] = text(now)
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'mark', row[1], 'version', row[2], 'accessed', row[5])
keep(row[3])
return row
""")

DELETE = Script("""
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return there and 1 or 0
""")

DELETE_LISTED = Script("""
local count = 0
for number = 3, #KEYS do
  local found = redis.call('HMGET', KEYS[number], 'ttl', 'accessed')
  if found[1] and live(found[1], found[2]) then count = count + 1 end
  redis.call('DEL', KEYS[number])
  redis.call('SREM', KEYS[2], ARGV[number - 2])
end
return count
""")
