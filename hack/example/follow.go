package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// explain tells what can be done in another terminal.
func (g *stage) explain() error {
	commands, err := g.example.Commands()
	if err != nil {
		return err
	}
	g.screen.Heading("Your turn")
	g.screen.Say("In another terminal, as examples/" + g.name + "/README.md has it:\n\n" +
		"  " + strings.Join(append(controlplane.Exports(g.access), "cd "+g.example.Folder), "\n  "))
	for _, line := range commands {
		g.screen.Say("  " + line)
	}
	if g.cp != nil {
		command, err := g.onceMore()
		if err != nil {
			return err
		}
		g.screen.Say("\nThe same operator once more, beside this one, in another terminal at the top of the repository:\n\n  " + command)
	}
	if g.input != nil {
		g.screen.Say("\nEnter stops the operator, and another Enter builds it anew and starts it: to see what it misses, or what you have changed.")
	}
	g.screen.Say("Ctrl-C ends it all. Here is what the operator logs:\n")
	return nil
}

// follow shows the log, and stops and starts the operator as it is told to, until the context is done.
func (g *stage) follow(ctx context.Context) error {
	typed := g.typed()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if err := g.look(); err != nil {
				return err
			}
		case _, more := <-typed:
			if !more {
				g.input, typed = nil, nil // an operator that ends by itself ends it all from now on
				if g.operator == nil {
					return fmt.Errorf("%w, or was stopped, and nobody is there to start it again", errEnded)
				}
				continue
			}
			if err := g.toggle(ctx); err != nil {
				return err
			}
		}
	}
}

// look shows what is new. An operator that has ended by itself can be started again, if there is anybody to do so.
func (g *stage) look() error {
	if g.operator == nil {
		return nil
	}
	ended := g.ended() // looked at first: it may log until its end
	g.news()
	if !ended {
		return nil
	}
	if err := errors.Join(errEnded, g.stop()); g.input == nil {
		return err
	}
	g.screen.Say("\nThe operator has ended. Enter starts it again, Ctrl-C ends it all.")
	return nil
}

// toggle stops the operator, or starts it again. What somebody has just written may not compile, or not run: that ends
// nothing else.
func (g *stage) toggle(ctx context.Context) error {
	if g.operator != nil {
		g.screen.Say("Stopping the operator ...")
		err := g.stop()
		g.screen.Say("It is stopped; the cluster is still there. Enter starts the operator again.")
		return err
	}
	err := g.build(ctx)
	if err == nil {
		err = g.start(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	g.screen.Say(err.Error() + "\nMend that, and press Enter.")
	if g.operator != nil && g.ended() {
		_ = g.stop() // how it has ended is in its log
	}
	return nil
}

// typed tells of each Enter. It is closed when there is no more input.
func (g *stage) typed() <-chan struct{} {
	if g.input == nil {
		return nil
	}
	enters := make(chan struct{})
	go func() {
		defer close(enters)
		for lines := bufio.NewScanner(g.input); lines.Scan(); {
			enters <- struct{}{}
		}
	}()
	return enters
}
