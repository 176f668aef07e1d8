package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// explain prints commands for another terminal.
func (g *stage) explain() error {
	commands, err := g.example.Commands()
	if err != nil {
		return err
	}
	g.screen.Heading("Your turn")
	g.screen.Say("In another terminal, as in examples/" + g.name + "/README.md:\n")
	g.screen.Indent(append(append(controlplane.Exports(g.access), "cd "+g.example.Folder), commands...))
	if g.cp != nil {
		command, err := g.secondInstance()
		if err != nil {
			return err
		}
		g.screen.Say("\nTo run a second instance of this operator, in another terminal in the root of the repository:\n\n  " + command)
	}
	if g.input != nil {
		g.screen.Say("\nPress Enter to stop the operator. Press Enter again to build and start it again, for example after a change.")
	}
	g.screen.Say("Press Ctrl-C to stop everything. The log of the operator follows:\n")
	return nil
}

// follow shows the log, and stops and starts the operator on Enter, until the context is cancelled.
func (g *stage) follow(ctx context.Context) error {
	typed := g.typed()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if err := g.showNew(); err != nil {
				return err
			}
		case _, more := <-typed:
			if !more {
				g.input, typed = nil, nil // without input, the command ends when the operator ends
				if g.operator == nil {
					return fmt.Errorf("%w, or was stopped, and there is no input to start it again", errEnded)
				}
				continue
			}
			if err := g.toggle(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// showNew shows new log lines, and in the demo new requests. It returns an error if the operator has ended and there is no input to start it again.
func (g *stage) showNew() error {
	if g.operator == nil {
		return nil
	}
	ended := g.ended() // check this before reading the log, because the operator may log until its end
	g.printNewLines()
	requests, err := g.newRequests()
	if err != nil {
		return err
	}
	g.screen.Indent(requests)
	if !ended {
		return nil
	}
	if err := errors.Join(errEnded, g.stop()); g.input == nil {
		return err
	}
	g.screen.Say("\nThe operator has ended. Press Enter to start it again, or Ctrl-C to stop everything.")
	return nil
}

// toggle stops or starts the operator. It only prints errors of the build and the start, because the user may be editing the code.
func (g *stage) toggle(ctx context.Context) error {
	if g.operator != nil {
		g.screen.Say("Stopping the operator ...")
		err := g.stop()
		g.screen.Say("The operator is stopped; the cluster still runs. Press Enter to start the operator again.")
		return err
	}
	err := g.build(ctx)
	if err == nil {
		err = g.start(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	g.screen.Say(err.Error() + "\nFix the error and press Enter.")
	if g.operator != nil && g.ended() {
		_ = g.stop() // the log contains the error of the operator
	}
	return nil
}

// typed returns a channel with a value for each Enter. The channel is closed at the end of the input.
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
