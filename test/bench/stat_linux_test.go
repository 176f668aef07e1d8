package bench

import (
	"os"
	"testing"
)

func TestReadStat_ThisProcess(t *testing.T) {
	got, err := readStat("/proc/self/stat")
	if err != nil || got.parent != os.Getppid() {
		t.Errorf("readStat() = %v, %v, want parent %d", got, err, os.Getppid())
	}
}
