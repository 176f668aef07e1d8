package program

import (
	"bytes"
	"slices"
	"sync"
)

// lines collects complete lines of output.
type lines struct {
	mu   sync.Mutex
	done []string
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		l.done, l.rest = append(l.done, string(line)), rest
	}
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}
