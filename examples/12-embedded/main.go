// Command 12-embedded is a program with something else to do than to be an operator: it has operators in it, and starts and
// stops them when it is asked to.
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
	listen := flag.String("listen", "localhost:8082", "where the program is asked")
	first := flag.String("teams", "blue,green", "the teams whose operators are started at once")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	// Signals are the program's: the library does not look for them.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	teams := strings.FieldsFunc(*first, func(r rune) bool { return r == ',' }) // none in an empty text; Split has one without a name
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
	office := &office{config: config}
	for _, team := range first {
		if err := office.open(ctx, team); err != nil {
			return errors.Join(err, office.closeAll())
		}
	}
	web := &http.Server{Addr: listen, Handler: office.routes(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err = web.ListenAndServe(); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, office.closeAll())
}
