package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the CPU times in /proc, on all architectures of Linux.
const clockTick = time.Second / 100

// findServers returns the files /proc/PID/stat of kube-apiserver and etcd if this process has started them. It returns
// nothing on systems without /proc.
func findServers() (files []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		stat, err := readStat(file)
		if err == nil && stat.parent == os.Getpid() && slices.Contains([]string{"kube-apiserver", "etcd"}, stat.name) {
			files = append(files, file)
		}
	}
	return files
}

// serverCPU returns the CPU time that kube-apiserver and etcd have used, or zero if it is unknown.
func (b *bench) serverCPU() (total time.Duration) {
	b.t.Helper()
	for _, file := range b.servers {
		stat, err := readStat(file)
		b.must(err)
		total += stat.cpu
	}
	return total
}

// procStat is the required part of /proc/PID/stat.
type procStat struct {
	name   string
	parent int
	cpu    time.Duration // user and system time of all threads
}

func readStat(file string) (procStat, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (stat procStat, err error) {
	begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if begin < 0 || end < begin || len(fields) < 13 {
		return stat, fmt.Errorf("unexpected format of /proc/PID/stat: %q", text)
	}
	var numbers [3]int
	for i, field := range []string{fields[1], fields[11], fields[12]} { // ppid, utime and stime
		if numbers[i], err = strconv.Atoi(field); err != nil {
			return stat, err
		}
	}
	return procStat{text[begin+1 : end], numbers[0], time.Duration(numbers[1]+numbers[2]) * clockTick}, nil
}
