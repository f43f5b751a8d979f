"""libnbd, as often as asked: as many connections at a time as the controller promises, each to one of its volumes.

    many_hosts.py SOCKET VOLUMES CONNECTIONS

Each writes a block of its own and reads it; then all of them are open at the same time, and each is asked again.
Says that it is ready, and ends when its input does.
"""

import resource
import sys

import nbd

socket, volumes, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], connections + 64), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

BLOCK = 4096
hosts = []
for number in range(connections):
    host = nbd.NBD()
    host.set_export_name(f"v{number % volumes}")
    host.connect_unix(socket)
    at = number // volumes * BLOCK
    bytes_of = number.to_bytes(8, "little") * (BLOCK // 8)
    host.pwrite(bytes_of, at)
    hosts.append((host, at, bytes_of))
for host, at, bytes_of in hosts:
    assert host.pread(BLOCK, at) == bytes_of, f"{host.get_export_name()} at {at}"
print("ready", flush=True)
sys.stdin.read()
for host, _, _ in hosts:
    host.shutdown()
