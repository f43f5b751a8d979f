#!/usr/bin/env python3
"""Makes the images of this folder: arrays that the program writes, stopped or killed in a given state.

    make.py SOFTROC FOLDER [NAME...]

SOFTROC is the program whose arrays are to be kept: a build of the commit that README.md names. nbdkit and xz are needed.
Each archive holds the drives that are to be found, and expected.json: what a host may read from each volume.
"""

import json, os, random, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

BLOCK = 4096
MIB = 1 << 20
NO_CACHE = ["--write-mode", "write-through", "--read-mode", "no-read-ahead", "--drive-cache", "unchanged"]


def content(block, version):
    """A block as the test expects it: 32 bytes, over and over."""
    return struct.pack("<8sQQQ", b"SoftROC3", block, version, block ^ version) * (BLOCK // 32)


class Host:
    """A client of NBD: simple replies, one request at a time."""

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        assert self.receive(18)[:16] == b"NBDMAGICIHAVEOPT"
        name = export.encode()
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self.size = struct.unpack(">QH", self.receive(10))[0]

    def receive(self, length):
        bytes = b""
        while len(bytes) < length:
            part = self.socket.recv(length - len(bytes))
            if not part:
                raise ConnectionError
            bytes += part
        return bytes

    def request(self, command, offset, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, offset, length) + data)
        _, error, _ = struct.unpack(">IIQ", self.receive(16))
        assert error == 0, f"command {command} at {offset} ended with {error}"

    def write(self, block, count, version):
        data = b"".join(content(each, version) for each in range(block, block + count))
        self.request(1, block * BLOCK, len(data), data)

    def flush(self):
        self.request(3, 0, 0)


class Volume:
    """A volume, and which versions a host may read of each block."""

    def __init__(self, array, name):
        self.array, self.name = array, name
        self.blocks = array.show(name)["capacity_bytes"] // BLOCK
        self.allowed = {}
        self.version = 0
        self.random = random.Random(name)

    def runs(self, of, count):
        """Places to write in a part of the volume that is given in hundredths: small ones, and some whole stripes."""
        first, end = self.blocks * of[0] // 100, self.blocks * of[1] // 100
        for _ in range(count):
            length = self.random.choice([1, 1, 2, 4, 8, 8, 48])
            yield self.random.randrange(first, end - length), length

    def write(self, of=(0, 100), count=20):
        host = Host(self.array.nbd, self.name)
        for block, length in self.runs(of, count):
            self.version += 1
            host.write(block, length, self.version)
            self.allowed.update((each, [self.version]) for each in range(block, block + length))
        host.flush()

    def write_until_killed(self, run, of=(0, 100), hosts=6, places=8):
        """Hosts write, each at places of its own, while `run` works and at last kills the controller."""
        ready = threading.Barrier(hosts + 1)

        def load(number):
            step = (of[1] - of[0]) // hosts
            part = (of[0] + number * step, of[0] + (number + 1) * step)
            host, runs, version = Host(self.array.nbd, self.name), list(self.runs(part, places)), 1000
            choice = random.Random(number)
            while True:
                block, length = choice.choice(runs)
                version += 1
                blocks = range(block, block + length)
                before = {each: self.allowed.get(each, [0]) for each in blocks}
                self.allowed.update((each, before[each] + [version]) for each in blocks)
                try:
                    host.write(block, length, version)
                except (ConnectionError, BrokenPipeError):
                    return
                finally:
                    if version == 1010:
                        ready.wait()
                self.allowed.update((each, [version]) for each in blocks)

        threads = [threading.Thread(target=load, args=(number,)) for number in range(hosts)]
        for thread in threads:
            thread.start()
        ready.wait()
        run()
        for thread in threads:
            thread.join()

    def expected(self):
        written = []
        for block in sorted(self.allowed):
            versions = self.allowed[block]
            if written and written[-1][0] + written[-1][1] == block and written[-1][2] == versions:
                written[-1][1] += 1
            else:
                written.append([block, 1, versions])
        return {"name": self.name, "blocks": self.blocks, "written": written}


class Array:
    """A controller in a folder of its own."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="softroc-images-")
        self.program, self.drives, self.slow, self.fills, self.volumes = program, [], {}, [], []
        self.nbd = f"{self.folder}/state/nbd.sock"
        log = open(f"{self.folder}/log", "wb")
        serve = [program, "serve", "--state", f"{self.folder}/state", "--cache", "0", "--shards", "1"]
        self.process = subprocess.Popen(serve, stdout=log, stderr=log)
        while self.run("volume", "list").returncode != 0:
            time.sleep(0.05)

    def run(self, *arguments):
        command = [self.program, *arguments, "--state", f"{self.folder}/state"]
        return subprocess.run(command, capture_output=True, text=True)

    def ok(self, *arguments):
        result = self.run(*arguments)
        assert result.returncode == 0, (arguments, result.stderr)
        return result.stdout

    def json(self, *arguments):
        return json.loads(self.ok(*arguments, "--json"))

    def show(self, name):
        return self.json("volume", "show", name)["volume"]

    def add(self, count, fill=False, mib=64, rate=None):
        """Drives: blank ones, or ones that hold a byte of their own everywhere; at most so many bits a second."""
        new = []
        for _ in range(count):
            number = len(self.drives)
            path = f"{self.folder}/d{number}.img"
            with open(path, "wb") as file:
                if fill:
                    self.fills.append(0x91 + 7 * number)
                    file.write(bytes([self.fills[-1]]) * (mib * MIB))
                else:
                    file.truncate(mib * MIB)
            name = path
            if rate:
                socket_path = f"{self.folder}/d{number}.sock"
                server = ["nbdkit", "-f", "-U", socket_path, "--filter=rate", "file", path, f"rate={rate}"]
                self.slow[number] = subprocess.Popen(server, stderr=subprocess.DEVNULL)
                while not os.path.exists(socket_path):
                    time.sleep(0.02)
                name = f"nbd+unix:///?socket={socket_path}"
            self.drives.append(path)
            new.append(name)
        if not fill:
            # What the controller creates itself is known to be blank.
            for path in new:
                os.unlink(path)
            self.ok("drive", "add", "--create", f"{mib}M", *new)
        else:
            self.ok("drive", "add", *new)
        return new

    def create(self, name, level, drives, *options):
        self.ok("volume", "create", name, "--level", level, *NO_CACHE, *options, "--drives", *drives)
        self.volumes.append(Volume(self, name))
        return self.volumes[-1]

    def task(self, kind):
        tasks = [task for task in self.json("task", "list")["tasks"] if task["kind"] == kind]
        assert tasks, f"there is no {kind}"
        return tasks[0]

    def wait_task(self, kind, percent):
        while True:
            task = self.task(kind)
            if task["percent"] >= percent:
                assert task["state"] == "running" and task["percent"] < 85, task
                return
            time.sleep(0.02)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()
        for server in self.slow.values():
            server.terminate()
            server.wait()

    def kill(self):
        self.end(signal.SIGKILL)

    def stop(self):
        self.end(signal.SIGTERM)

    def keep(self, archive, ends, task=None, without=()):
        """Puts the drives and what is expected into the archive. `ends`: the state of the volumes when the task is done."""
        expected = {"ends": ends, "task": task, "fills": self.fills}
        expected["volumes"] = [each.expected() for each in self.volumes]
        with open(f"{self.folder}/expected.json", "w") as file:
            json.dump(expected, file, separators=(",", ":"))
        names = ["expected.json"]
        names += [f"d{number}.img" for number in range(len(self.drives)) if number not in without]
        tar = ["tar", "-C", self.folder, "--owner=0", "--group=0", "-cSf", "-", *names]
        with open(archive, "wb") as file:
            tar = subprocess.Popen(tar, stdout=subprocess.PIPE)
            subprocess.run(["xz", "-9e", "-T1"], stdin=tar.stdout, stdout=file, check=True)
        assert tar.wait() == 0
        shutil.rmtree(self.folder)


def clean(array):
    drives = array.add(4)
    array.ok("spare", "add", *array.add(1))
    data = array.create("data", "raid5", drives, "--size", "48M")
    more = array.create("more", "raid10", drives)
    data.write(count=40)
    more.write(of=(0, 40))
    array.stop()
    return {"ends": "optimal"}


def initialising(array):
    data = array.create("data", "raid6", array.add(5, fill=True, mib=80, rate="60M"))
    data.write(count=40)
    data.write_until_killed(lambda: (time.sleep(1), array.kill()))
    return {"ends": "optimal"}


def initialising_degraded(array):
    data = array.create("data", "raid5", array.add(4, fill=True, mib=80, rate="60M"))
    data.write(count=40)
    array.ok("drive", "fail", "data:2")
    data.write(count=20)
    array.stop()
    return {"ends": "degraded", "without": [2]}


def resync(array):
    data = array.create("data", "raid6", array.add(5, fill=True, mib=80, rate="60M"))
    data.write(count=40)
    data.write_until_killed(lambda: (array.wait_task("resync", 55), array.kill()), of=(75, 99))
    return {"ends": "optimal", "task": "resync"}


def resync_stopped(array):
    data = array.create("data", "raid5", array.add(4, fill=True, mib=80, rate="100M"))
    data.write(count=40)
    array.wait_task("resync", 35)
    data.write(count=20)
    array.stop()
    return {"ends": "optimal", "task": "resync"}


def rebuild(array):
    drives = array.add(4, mib=80)
    data = array.create("data", "raid5", drives)
    data.write(count=60)
    array.ok("drive", "fail", "data:1")
    data.write(count=20)
    array.ok("drive", "replace", "data:1", "--with", *array.add(1, fill=True, mib=80))
    array.ok("task", "set", str(array.task("rebuild")["task"]), "--limit", "8M")
    data.write_until_killed(lambda: (array.wait_task("rebuild", 40), array.kill()))
    return {"ends": "optimal", "task": "rebuild", "without": [1]}


def reshape(array):
    data = array.create("data", "raid5", array.add(4))
    data.write(count=60)
    array.ok("volume", "migrate", "data", "--level", "raid6", "--add", *array.add(2))
    array.ok("task", "set", str(array.task("reshape")["task"]), "--limit", "8M")
    data.write_until_killed(lambda: (array.wait_task("reshape", 40), array.kill()))
    return {"ends": "optimal", "task": "reshape"}


def reshape_stopped(array):
    data = array.create("data", "raid5", array.add(4))
    data.write(count=60)
    array.ok("volume", "migrate", "data", "--level", "raid6", "--add", *array.add(2))
    array.ok("task", "set", str(array.task("reshape")["task"]), "--limit", "8M")
    array.wait_task("reshape", 40)
    data.write(count=20)
    array.stop()
    return {"ends": "optimal", "task": "reshape"}


def degraded(array):
    data = array.create("data", "raid6", array.add(5))
    data.write(count=40)
    array.ok("drive", "fail", "data:1")
    data.write(count=20)
    array.ok("drive", "fail", "data:3")
    data.write(count=20)
    array.stop()
    return {"ends": "degraded", "without": [1, 3]}


def dirty(array):
    data = array.create("data", "raid5", array.add(4))
    data.write(count=30)
    data.write_until_killed(array.kill)
    return {"ends": "optimal"}


def dirty_resync(array):
    data = array.create("data", "raid6", array.add(4), "--write-hole", "resync")
    data.write(count=30)
    data.write_until_killed(array.kill)
    return {"ends": "optimal"}


def dirty_mirrors(array):
    data = array.create("data", "raid10", array.add(4))
    data.write(count=30)
    data.write_until_killed(array.kill)
    return {"ends": "optimal"}


def dirty_degraded(array):
    data = array.create("data", "raid5", array.add(4))
    data.write(count=30)
    array.ok("drive", "fail", "data:2")
    data.write_until_killed(array.kill)
    return {"ends": "degraded", "without": [2]}


IMAGES = [clean, initialising, initialising_degraded, resync, resync_stopped, rebuild, reshape, reshape_stopped, degraded, dirty, dirty_resync, dirty_mirrors, dirty_degraded]

if __name__ == "__main__":
    program, folder, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    for image in IMAGES:
        name = image.__name__.replace("_", "-")
        if not names or name in names:
            array = Array(program)
            kept = image(array)
            archive = f"{folder}/{name}.tar.xz"
            array.keep(archive, **kept)
            print(f"{archive}: {os.path.getsize(archive)} bytes", flush=True)
