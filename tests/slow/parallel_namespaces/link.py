"""Measures TCP between two hosts, with round trips of 64 bytes and a stream in one direction.

usage:
    link.py serve             on one host
    link.py measure ADDRESS   on another; prints microseconds (the median) and Gbit/s
"""
import socket
import statistics
import sys
import time

PORT, SMALL, TRIPS, STREAM = 7711, 64, 400, 200_000_000


def take(connection, count):
    while count:
        count -= len(connection.recv(min(count, 1 << 20)))


def serve():
    with socket.create_server(("", PORT)) as listener:
        connection = listener.accept()[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(TRIPS):
            take(connection, SMALL)
            connection.sendall(bytes(SMALL))
        take(connection, STREAM)
        connection.sendall(bytes(1))


def connect(address):
    for _ in range(100):
        try:
            return socket.create_connection((address, PORT))
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit(f"nobody answers at {address}")


def measure(address):
    connection = connect(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips = []
    for _ in range(TRIPS):
        start = time.perf_counter()
        connection.sendall(bytes(SMALL))
        take(connection, SMALL)
        trips.append(time.perf_counter() - start)
    start = time.perf_counter()
    connection.sendall(bytes(STREAM))
    take(connection, 1)
    seconds = time.perf_counter() - start
    print(f"{statistics.median(trips) * 1e6:.0f} {STREAM * 8 / seconds / 1e9:.2f}")


if sys.argv[1] == "serve":
    serve()
else:
    measure(sys.argv[2])
