// SPDX-License-Identifier: MIT OR Apache-2.0
/* The four tasks of cpuset/single-node-skip, as one program for a guest with a distribution's
 * userland: the job that ci/bench gives to virtme-ng. Prints what a developer would look at. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 3
#define BYTES (4 << 20)
#define GROUPS "/sys/fs/cgroup"
#define KNOBS "/sys/kernel/debug/sched/numa_balancing/"

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

static long counter(const char *path, const char *name)
{
	char line[256];
	long value = -1;
	FILE *file = fopen(path, "r");

	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strcspn(line, " :") + strspn(line + strcspn(line, " :"), " :"));
	fclose(file);
	return value;
}

static void *sleeper(void *unused)
{
	(void)unused;
	pause();
	return NULL;
}

static void touch(void)
{
	struct timespec now, end;
	volatile char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += SECONDS;
	do {
		for (long at = 0; at < BYTES; at += 4096) {
			memory[at] = 1;
			(void)memory[at];
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

/* Executed anew in its cgroup, with its policy set, as the scenario's tasks are. */
static int task(const char *threads, const char *name, long pte, long faults)
{
	pthread_t thread;

	if (atoi(threads) > 1 && pthread_create(&thread, NULL, sleeper, NULL))
		die("pthread_create");
	touch();
	printf("%s: numa_pte_updates %ld, numa_hint_faults %ld, numa_scan_seq %ld\n", name,
	       counter("/proc/vmstat", "numa_pte_updates") - pte,
	       counter("/proc/vmstat", "numa_hint_faults ") - faults,
	       counter("/proc/self/sched", "mm->numa_scan_seq"));
	return 0;
}

static void run(const char *name, const char *mems, const char *threads, int bound)
{
	char group[64], path[128], pte[32], faults[32];
	pid_t child;
	int status;

	snprintf(group, sizeof(group), GROUPS "/%s", name);
	if (mems) {
		if (mkdir(group, 0755))
			die(group);
		snprintf(path, sizeof(path), "%s/cpuset.mems", group);
		put(path, mems);
	}
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		cpu_set_t cpu;
		unsigned long node = 1;

		if (mems) {
			snprintf(path, sizeof(path), "%s/cgroup.procs", group);
			put(path, "0");
		}
		CPU_ZERO(&cpu);
		CPU_SET(1, &cpu);
		if (sched_setaffinity(0, sizeof(cpu), &cpu))
			die("sched_setaffinity");
		if (bound && syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &node, 64))
			die("set_mempolicy");
		snprintf(pte, sizeof(pte), "%ld", counter("/proc/vmstat", "numa_pte_updates"));
		snprintf(faults, sizeof(faults), "%ld", counter("/proc/vmstat", "numa_hint_faults "));
		execl("/proc/self/exe", "job", threads, name, pte, faults, (char *)NULL);
		die("exec");
	}
	if (waitpid(child, &status, 0) < 0 || status)
		exit(1);
}

int main(int count, char **words)
{
	if (count == 5)
		return task(words[1], words[2], atol(words[3]), atol(words[4]));
	/* Either may be there already. */
	if (mount("cgroup2", GROUPS, "cgroup2", 0, NULL) && errno != EBUSY)
		die(GROUPS);
	if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) && errno != EBUSY)
		die("/sys/kernel/debug");
	put(GROUPS "/cgroup.subtree_control", "+cpuset");
	put(KNOBS "scan_delay_ms", "100");
	put(KNOBS "scan_period_min_ms", "100");
	put(KNOBS "scan_period_max_ms", "200");
	run("pinned", "0", "1", 0);
	run("wide", "0-1", "2", 0);
	run("free", NULL, "2", 0);
	run("bound", NULL, "1", 1);
	puts("done");
	return 0;
}
