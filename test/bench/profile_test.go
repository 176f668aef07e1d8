package bench

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// withCPUProfile calls do and writes a CPU profile of it to path. It only calls do if path is empty.
func withCPUProfile(path string, do func() error) (err error) {
	if path == "" {
		return do()
	}
	runtime.MemProfileRate = 16 << 10 // more precise than the default, for profileHeap
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}

// profileHeap writes a profile of the heap, as of the last garbage collection, to path with the suffix .heap. It does
// nothing if path is empty.
func profileHeap(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path + ".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
