package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const clockTick = 10 * time.Millisecond // of the times in /proc

// usage is the CPU time and the resident memory of a process.
type usage struct {
	cpu          time.Duration
	memory, peak int // MiB
}

func (u usage) String() string {
	return fmt.Sprintf("%.2f s CPU, %d MiB", u.cpu.Seconds(), u.memory)
}

// usageOf reads the usage of a process from /proc. It skips the spec on systems without /proc.
func usageOf(p *peer) usage {
	GinkgoHelper()
	folder := fmt.Sprintf("/proc/%d/", p.Process.Pid)
	stat, err := os.ReadFile(folder + "stat")
	if os.IsNotExist(err) {
		Skip("needs /proc")
	}
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the command may contain spaces
	fields := strings.Fields(rest)
	ticks := 0
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		Expect(err).NotTo(HaveOccurred())
		ticks += n
	}
	status, err := os.ReadFile(folder + "status")
	Expect(err).NotTo(HaveOccurred())
	size := func(name string) int {
		_, value, found := strings.Cut(string(status), "\n"+name+":")
		Expect(found).To(BeTrue(), name)
		kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
		Expect(err).NotTo(HaveOccurred())
		return kilobytes >> 10
	}
	return usage{time.Duration(ticks) * clockTick, size("VmRSS"), size("VmHWM")}
}

// during returns the usage of processes while do runs.
func during(processes []*peer, do func()) (used []usage) {
	GinkgoHelper()
	for _, p := range processes {
		used = append(used, usageOf(p))
	}
	do()
	for i, p := range processes {
		now := usageOf(p)
		used[i] = usage{now.cpu - used[i].cpu, now.memory, now.peak}
	}
	return used
}

// shardMemory is the memory of a process in MiB: at its peak, when all objects are handled, and after a garbage collection.
type shardMemory struct {
	peak, resident, collected, heap int
}

func (f shardMemory) String() string {
	return fmt.Sprintf("peak %d MiB, resident %d MiB, after a collection %d MiB with %d MiB of heap", f.peak, f.resident, f.collected, f.heap)
}

// memoryOf measures a shard. The shard collects its garbage when it receives SIGUSR1.
func memoryOf(p *peer) shardMemory {
	GinkgoHelper()
	before, collections := usageOf(p), p.count("heap ")
	n := collections()
	Expect(p.Process.Signal(syscall.SIGUSR1)).To(Succeed())
	Eventually(collections).WithTimeout(time.Minute).Should(Equal(n + 1))
	heap, err := strconv.Atoi(strings.TrimPrefix(p.last("heap ").what, "heap "))
	Expect(err).NotTo(HaveOccurred())
	return shardMemory{before.peak, before.memory, usageOf(p).memory, heap >> 20}
}
