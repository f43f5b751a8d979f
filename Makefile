# make run    installs what it needs, builds, and takes the tour
# make test   installs the test tools and runs every test
# The other targets run longer, or measure: docs/develop/testing.md.

CARGO ?= cargo
# Programs that nobody here wrote judge our interfaces: they are installed from the system's packages.
JUDGES = fio nut-server libnbd-bin python3-libnbd nbdkit qemu-utils qemu-block-extra qemu-system-common e2fsprogs fdisk xfsprogs btrfs-progs \
	dosfstools ntfs-3g fuse3 chromium poppler-utils w3m xz-utils postgresql sqlite3 prometheus systemd \
	prometheus-node-exporter-collectors snmp snmpd snmptrapd tmux rsyslog libfile-which-perl curl openssl python3-venv python3-seccomp $(GUEST)
# With these, and a kernel of Debian's, a real Linux judges our arrays and has our volumes as disks in an emulated machine.
GUEST = mdadm e2fsprogs binutils qemu-system-x86 busybox-static cpio kmod
# The same from PyPI, into target/judges-python.
PYTHON_JUDGES = pystorcli2==0.6.4 prometheus_client aiosmtpd
STATIC = $(shell uname -m)-unknown-linux-gnu
# What long tests put on disks of a guest.
LONG = lvm2 dmsetup
PEERS = nbdkit qemu-utils qemu-system-common fio libnbd-bin

.PHONY: run test test-long test-md test-package package static fuzz mutants evidence bench bench-parity asan-parity lint build tools-build tools-test tools-long tools-bench help

help:
	@sed -n 's/^# make/make/p' Makefile

run: tools-build
	$(CARGO) build --release -p softroc
	./target/release/softroc quickstart

test: tools-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --workspace --no-fail-fast

test-long: tools-long
	$(CARGO) build --release -p torture
	./target/release/torture --seeds 0..5000
	./target/release/torture --seeds 0..1000 --once --write-back
	TORTURE_TESTS=all $(CARGO) test --release -p torture
	PARITY_TESTS=all $(CARGO) test --release -p parity
	PLAN_TESTS=all $(CARGO) test --release -p plan
	CRASH_TESTS=all INITIALISATION_TESTS=all $(CARGO) test --release -p controller
	INITIALISATION_TESTS=all $(CARGO) test --release -p softroc --test first_losses
	LEVELS_TESTS=all $(CARGO) test --release -p softroc --test levels
	CACHE_TESTS=all $(CARGO) test --release -p predict --test cached
	DATABASE_TESTS=all $(CARGO) test --release -p softroc --test databases
	ATTACH_TESTS=all $(CARGO) test --release -p softroc --test attach_long --test vhost_user -- --nocapture

test-md: tools-test
	MD_TESTS=all $(CARGO) test -p softroc --test md --test examine

# A Debian package of the release build in target/package: docs/operate/service.md
package: tools-build
	@scripts/need --packages debhelper
	$(CARGO) build --release -p softroc --features png
	scripts/package target/release/softroc target/package

# One file that needs no library of the system: docs/operate/service.md
static: tools-build
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release -p softroc --features png --target $(STATIC)

test-package: tools-build
	@scripts/need --packages debhelper lintian mmdebstrap
	$(CARGO) build --release -p softroc --features png
	scripts/test-package target/release/softroc target/package

bench: tools-bench
	$(CARGO) build --release -p softroc
	scripts/bench

# Parity on one core beside Debian's ISA-L, interleaved; FILTER="words of a row" takes some rows.
bench-parity: tools-build
	@scripts/need --packages libisal2
	$(CARGO) bench -p parity --bench peers -- $(FILTER)

# The tests of parity under an address sanitizer, which the stable compiler has but hides.
ASAN_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
asan-parity: tools-build
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address $(CARGO) test -p parity --tests --target $(ASAN_TARGET) --target-dir target/asan

# Every decoder of outside bytes under a coverage-guided engine, SECONDS for each; TARGETS selects
# some: docs/develop/fuzzing.md
SECONDS = 300
fuzz: tools-build
	@scripts/need g++
	scripts/fuzz $(SECONDS) $(TARGETS)

# Plants defects, one at a time, in a copy of the sources: the tests must catch them. MUTANTS=name,name
# selects some, KEEP=1 skips those caught on earlier sources: docs/develop/torture.md
mutants: tools-build
	@scripts/need python3
	scripts/mutants/run $(if $(MUTANTS),--only $(MUTANTS)) $(if $(KEEP),--keep)

# Torture seeds as evidence for the sources as they are, kept in evidence/. EVIDENCE is their number:
# docs/develop/torture.md
EVIDENCE = 5000
evidence: tools-build
	@scripts/need python3
	scripts/evidence/run $(EVIDENCE)
	scripts/evidence/run $(EVIDENCE) --once --write-back

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

tools-build:
	@scripts/need cargo cc

tools-test: tools-build
	@scripts/need --packages $(JUDGES)
	@scripts/judges-python target/judges-python $(PYTHON_JUDGES)
	@scripts/md-guest target/md-guest
	@scripts/redfish-judges target/redfish-judges
	@scripts/axe-core target/axe-core

tools-long: tools-test
	@scripts/need --packages $(LONG)
	@scripts/md-guest target/md-guest more

tools-bench: tools-build
	@scripts/need --packages $(PEERS)
