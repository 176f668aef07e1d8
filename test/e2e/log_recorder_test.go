package e2e

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
)

// A logRecorder records the log of one operator.
type logRecorder struct {
	mu    sync.Mutex
	lines []string
	empty bool // whether the recorder discards all lines to save memory
	only  string
}

func (b *logRecorder) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.empty || !strings.Contains(args, b.only) {
			return
		}
		b.lines = append(b.lines, prefix+" "+args)
		GinkgoWriter.Println(prefix, args)
	}, funcr.Options{Verbosity: 1, LogTimestamp: true})
}

// find returns the lines that contain all the words.
func (b *logRecorder) find(words ...string) []string {
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

// errors returns the error lines. They have an "error" value instead of a "level".
func (b *logRecorder) errors() []string {
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

// setOnly makes the recorder discard all further lines without a word.
func (b *logRecorder) setOnly(word string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.only = word
}
