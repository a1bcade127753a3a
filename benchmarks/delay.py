"""`python -m benchmarks.delay PORT SECONDS`: a relay to 127.0.0.1:PORT that delays what clients send.

Every request takes SECONDS longer, however many there are at once; opening a connection is not delayed. The relay
prints its own port and, for each line on standard input, the number of requests so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

BLOCK = 1 << 16


async def relay(port: int, seconds: float) -> None:
    """Serve until standard input ends."""
    requests = 0

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause: float) -> None:
        """Forward each block in order, after the pause."""
        nonlocal requests
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=4096)
        clock = asyncio.get_running_loop().time

        async def send() -> None:
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(0.0, due - clock()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        sender = asyncio.create_task(send())
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(BLOCK):
                requests += data.count(b" HTTP/1.1\r\n")
                await waiting.put((clock() + pause, data))
        await waiting.put((clock() + pause, b""))
        with contextlib.suppress(ConnectionError):
            await sender

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(late(reader, back, seconds), late(there, writer, 0))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(requests, flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1]), float(sys.argv[2])))
