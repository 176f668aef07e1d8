package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const clockTick = 10 * time.Millisecond // of the times in /proc

// usage is the CPU time and the resident memory of a process.
type usage struct {
	cpu    time.Duration
	memory int // MiB
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
	statm, err := os.ReadFile(folder + "statm")
	Expect(err).NotTo(HaveOccurred())
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	Expect(err).NotTo(HaveOccurred())
	return usage{time.Duration(ticks) * clockTick, pages * os.Getpagesize() >> 20}
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
		used[i] = usage{now.cpu - used[i].cpu, now.memory}
	}
	return used
}
