package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A screen is where the demo tells its story. On a terminal, headings stand out.
type screen struct {
	out  io.Writer
	rich bool
}

func newScreen(file *os.File) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: file, rich: terminal && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""}
}

func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *screen) say(text string) { s.printf("%s\n", text) }

func (s *screen) bold(text string) {
	if s.rich {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.say(text)
}

func (s *screen) heading(text string) {
	s.say("")
	s.bold(fmt.Sprintf("=== %s %s", text, strings.Repeat("=", max(0, 90-len(text)))))
	s.say("")
}

// part shows some lines under a title, and a remark instead if there are none.
func (s *screen) part(title string, lines []string, none string) {
	s.say("")
	s.bold(title)
	if len(lines) == 0 {
		lines = []string{none}
	}
	for _, line := range lines {
		s.say("  " + line)
	}
}

// during says what is being done, and how long that may take, and did.
func (s *screen) during(ctx context.Context, limit time.Duration, what, hint string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.printf("%s (%s) ...", what, hint)
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	sign := time.NewTicker(5 * time.Second)
	defer sign.Stop()
	for {
		select {
		case <-sign.C:
			s.printf(" %ds ...", int(time.Since(began).Seconds()))
		case err := <-done:
			took := time.Since(began).Round(100 * time.Millisecond)
			if err != nil {
				s.printf(" no, after %s\n", took)
				return fmt.Errorf("%s: %w", strings.ToLower(what[:1])+what[1:], err)
			}
			s.printf(" done in %s\n", took)
			return nil
		}
	}
}
