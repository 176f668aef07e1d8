package e2e

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
)

// A logBook keeps the log of one operator, to be asked about it.
type logBook struct {
	mu    sync.Mutex
	lines []string
	empty bool // it is left empty, to keep no memory
}

func (b *logBook) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.empty {
			return
		}
		b.lines = append(b.lines, prefix+" "+args)
		GinkgoWriter.Println(prefix, args)
	}, funcr.Options{Verbosity: 1, LogTimestamp: true})
}

// find returns the lines that contain all the words.
func (b *logBook) find(words ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
next:
	for _, line := range b.lines {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// errors are the lines that were logged as errors: those have an error where others have a level.
func (b *logBook) errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for _, line := range b.lines {
		if !strings.Contains(line, `"level"=`) {
			found = append(found, line)
		}
	}
	return found
}
