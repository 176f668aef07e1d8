package bench

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiled writes a CPU profile of a function, if profiles are requested.
func profiled(path string, do func() error) (err error) {
	if path == "" {
		return do()
	}
	runtime.MemProfileRate = 16 << 10 // for profileHeap: finer than the default, and still cheap
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

// profileHeap writes a profile of the heap after the last garbage collection.
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
