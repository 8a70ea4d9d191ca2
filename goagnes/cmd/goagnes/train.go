// goagnes train, predict: fit a model to a store and apply it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/goagnes/goagnes/goagnes"
)

// optionalFloat is a flag holding a number whose absence means the default.
type optionalFloat struct{ value **float64 }

func (v optionalFloat) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", text)
	}
	*v.value = &n
	return nil
}

func (v optionalFloat) String() string { return "" }

var trainCommand = command{
	name:      "train",
	positions: []string{"STORE"},
	summary:   "train a node classifier on the splits train, val and test",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		open := openFlags(set)
		o := &goagnes.TrainOptions{}
		set.StringVar(&o.Model, "model", "sage", "`name` of the model: sage, gcn, gat or mlp")
		set.StringVar(&o.Preset, "preset", "", "`name` of a set of defaults: citation or shchur")
		set.Var(countValue{&o.Layers}, "layers", "layers `n`, default 3")
		set.Var(countValue{&o.Hidden}, "hidden", "units `n` of every layer but the last, default 256")
		set.Var(countValue{&o.Heads}, "heads", "heads `n` of gat's layers but the last, default 8")
		set.Var(countValue{&o.OutputHeads}, "output-heads", "heads `n` of gat's last layer, averaged, default 1")
		set.Var(optionalFloat{&o.AttentionDropout}, "attention-dropout", "`rate` of gat's attention coefficients, default 0")
		set.BoolVar(&o.Residual, "residual", false, "add a linear skip to each of gat's layers")
		set.Var(optionalFloat{&o.Dropout}, "dropout", "`rate` before every layer but the first, default 0")
		set.Float64Var(&o.LearningRate, "lr", 0, "learning `rate` of Adam, default 0.003")
		set.Var(optionalFloat{&o.WeightDecay}, "weight-decay", "L2 `penalty`, default 0")
		set.Var(countValue{&o.Epochs}, "epochs", "epochs `n`, default 10")
		set.Var(countValue{&o.Patience}, "patience", "end after `n` epochs that were not better by --monitor, default never, with preset shchur 50")
		set.StringVar(&o.Monitor, "monitor", "", "what `name` of the split val chooses the epoch that is kept: val_accuracy, the default, or val_loss, that of preset shchur")
		set.Var(countValue{&o.BatchSize}, "batch-size", "seeds `n` of a minibatch, default 1000")
		set.Var(intsValue{&o.NumNeighbors}, "num-neighbors", "neighbours drawn per node in training, a `list` with one entry a layer, default 10 each")
		set.Var(intsValue{&o.EvalNeighbors}, "eval-neighbors", "the same `list` for validation and test, default all")
		set.Var(countValue{&o.EvalBatchSize}, "eval-batch-size", "seeds `n` of an evaluation minibatch, default as in training")
		set.Uint64Var(&o.Seed, "seed", 0, "seed `n` of weights, dropout and draws")
		set.StringVar(&o.NormalizeFeatures, "normalize-features", "", "`name` of what rows of features are divided by: none, the default; row, their sum, that of preset citation; or l2, their Euclidean norm, that of preset shchur")
		set.Var(countValue{&o.HyperbatchSize}, "hyperbatch-size", "minibatches `n` prepared together at most, default 1024")
		set.StringVar(&o.Mode, "mode", "agnes", "`name`: agnes; agnes-no to prepare every minibatch alone; agnes-paper for Algorithm 1 as published")
		set.BoolVar(&o.Calibrate, "calibrate", false, "measure the device's own reads after the run, to compare with")
		set.StringVar(&o.Save, "save", "", "`file` for the trained weights, .npz")
		return func(ctx context.Context, call invocation) (res *result, err error) {
			store, err := openStore(call, *open)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			o.Progress = call.progress
			report, err := goagnes.Train(ctx, store, *o)
			if err != nil {
				return nil, err
			}
			warnPageCache(call, report.IO.FallbackFile)
			return &result{document: report, text: func(w io.Writer) { printTrain(w, report) }}, nil
		}
	},
}

func printTrain(w io.Writer, r *goagnes.TrainReport) {
	fmt.Fprintln(w, "epoch  train loss  train acc.  val loss  val acc.  seconds")
	for _, e := range r.Epochs {
		fmt.Fprintf(w, "%5d  %10.4f  %9.2f%%  %8s  %8s  %7.2f\n",
			e.Epoch, e.TrainLoss, 100*e.TrainAccuracy, optional("%.4f", e.ValLoss, 1), optional("%.2f%%", e.ValAccuracy, 100), e.Seconds)
	}
	s := r.Seconds
	printRows(w, [][2]string{
		{"model", fmt.Sprintf("%s, %d parameters, of epoch %d", r.Model, r.Parameters, r.BestEpoch)},
		{"val accuracy", optional("%.2f %%", r.ValAccuracy, 100)},
		{"test accuracy", optional("%.2f %%", r.TestAccuracy, 100)},
		{"seconds", fmt.Sprintf("%.2f: waiting for data %.2f, forward %.2f, backward %.2f, optimizer %.2f, evaluation %.2f",
			s.Total, s.Wait, s.Forward, s.Backward, s.Optimizer, s.Evaluation)},
		{"read", formatSize(r.IO.BytesRead)},
		{"written", formatSize(r.IO.BytesWritten)},
		{"memory", fmt.Sprintf("budget %s, used %s, process %s", formatSize(r.Memory), formatSize(r.PeakMemory), formatSize(r.PeakRSS))},
		{"weights", r.WeightsSHA256},
	})
}

// optional formats a number that may be missing.
func optional(format string, value *float64, scale float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf(format, scale**value)
}

var predictCommand = command{
	name:      "predict",
	positions: []string{"STORE"},
	summary:   "apply a trained model to the nodes of a split",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		open := openFlags(set)
		o := &goagnes.PredictOptions{}
		model := set.String("model", "", "`file` of the weights that train --save wrote")
		set.StringVar(&o.Split, "split", "test", "`split` whose nodes are classified")
		set.Var(countValue{&o.BatchSize}, "batch-size", "nodes `n` of a minibatch, default 1000")
		set.Var(intsValue{&o.NumNeighbors}, "num-neighbors", "neighbours drawn per node, a `list` with one entry a layer, default all")
		set.Uint64Var(&o.Seed, "seed", 0, "seed `n` of the draws")
		set.Var(countValue{&o.HyperbatchSize}, "hyperbatch-size", "minibatches `n` prepared together at most, default 1024")
		out := set.String("out", "", "`file` for the predictions: .npy, int64 rows of node id and class")
		return func(ctx context.Context, call invocation) (*result, error) {
			if *model == "" {
				return nil, usagef("predict: --model is missing")
			}
			o.Progress = call.progress
			report, err := predict(ctx, call, *open, *model, *out, *o)
			if err != nil {
				return nil, err
			}
			return &result{document: report, text: func(w io.Writer) { printPredict(w, report) }}, nil
		}
	},
}

// predictReport is what predict prints as JSON.
type predictReport struct {
	Store    string   `json:"store"`
	Model    string   `json:"model"`
	Split    string   `json:"split"`
	Nodes    int64    `json:"nodes"`
	Labelled int64    `json:"labelled"`
	Accuracy *float64 `json:"accuracy"` // over labelled nodes, 0..1; null where there are none
	Out      string   `json:"out,omitempty"`
	Seconds  float64  `json:"seconds"`
}

func predict(ctx context.Context, call invocation, open goagnes.OpenOptions, model, out string, o goagnes.PredictOptions) (report *predictReport, err error) {
	start := time.Now()
	store, err := openStore(call, open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	report = &predictReport{Store: call.args[0], Model: model, Split: o.Split, Out: out}
	var file *predictionFile
	if out != "" {
		if file, err = createPredictions(out, store.Splits()[o.Split]); err != nil {
			return nil, err
		}
		defer file.discard()
	}
	right := int64(0)
	err = goagnes.Predict(ctx, store, model, o, func(p goagnes.Prediction) error {
		report.Nodes += int64(len(p.Classes))
		for i, label := range p.Labels { // none where the store has no labels
			if label >= 0 {
				report.Labelled++
				if label == p.Classes[i] {
					right++
				}
			}
		}
		if file == nil {
			return nil
		}
		return file.add(p.NID, p.Classes)
	})
	if err != nil {
		return nil, err
	}
	if file != nil {
		if err := file.publish(); err != nil {
			return nil, err
		}
	}
	warnPageCache(call, store.Counters().FallbackFile)
	if report.Labelled > 0 {
		accuracy := float64(right) / float64(report.Labelled)
		report.Accuracy = &accuracy
	}
	report.Seconds = time.Since(start).Seconds()
	return report, nil
}

func printPredict(w io.Writer, r *predictReport) {
	rows := [][2]string{
		{"nodes", fmt.Sprintf("%d of split %s, %d labelled", r.Nodes, r.Split, r.Labelled)},
		{"accuracy", optional("%.2f %%", r.Accuracy, 100)},
		{"seconds", fmt.Sprintf("%.2f", r.Seconds)},
	}
	if r.Out != "" {
		rows = append(rows, [2]string{"written", r.Out})
	}
	printRows(w, rows)
}
