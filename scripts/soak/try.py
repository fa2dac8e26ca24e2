import asyncio, sys, tempfile, traceback
from pathlib import Path
from scripts.soak.device_game import Game
a,b=int(sys.argv[1]),int(sys.argv[2]); verbose=len(sys.argv)>3
bad=0
for seed in range(a,b):
    with tempfile.TemporaryDirectory() as d:
        g=Game(seed,Path(d),devices=2+seed%2,moves=30+seed%40,relays=1+(seed//3)%2)
        try: p=asyncio.run(asyncio.wait_for(g.play(),120))
        except Exception as e: p=[f"EXC {type(e).__name__} {str(e)[:200]}"]; traceback.print_exc() if verbose else None
        if p:
            bad+=1; print(seed,len(g.operations),p[:3],flush=True)
            if verbose: print("\n".join(g.log)); print("\n".join(p))
print("bad",bad,"of",b-a)
