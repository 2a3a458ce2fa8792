"""States in Redis or Valkey, one server or a cluster, through `redis` (the extra `frontdesk[redis]`)."""

from frontdesk.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
