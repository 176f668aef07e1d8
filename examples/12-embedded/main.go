// Command 12-embedded is a program that starts and stops operators on request.
package main

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	listen := flag.String("listen", "localhost:8082", "address of the HTTP API")
	first := flag.String("teams", "blue,green", "teams whose operators start with the program")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	// The program handles signals, because the library does not.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	teams := strings.FieldsFunc(*first, func(r rune) bool { return r == ',' }) // unlike Split, FieldsFunc returns no names for an empty text
	if err := run(ctx, *listen, teams); err != nil {
		ctrl.Log.Error(err, "The program has failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, first []string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	teams := &teamServer{config: config}
	for _, team := range first {
		if err := teams.startTeam(ctx, team); err != nil {
			return errors.Join(err, teams.stopAll())
		}
	}
	web := &http.Server{Addr: listen, Handler: teams.routes(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err = web.ListenAndServe(); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, teams.stopAll())
}
